/// Sorting that keeps the order of equals.
enum StableOrder {
    static func indices<Element>(of elements: [Element], by key: (Element) -> Timestamp) -> [Int] {
        elements.indices.sorted { left, right in
            let (leftKey, rightKey) = (key(elements[left]), key(elements[right]))
            return leftKey != rightKey ? leftKey < rightKey : left < right
        }
    }
}
