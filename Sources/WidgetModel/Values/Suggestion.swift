import JSON

/// Suggestions for misspelt names.
package enum Suggestion {
    /// The first of the candidates closest to a name, if it is close enough.
    package static func closest(to name: String, among candidates: some Sequence<String>) -> String? {
        let wanted = Array(name.lowercased().unicodeScalars.prefix(64))
        let limit = max(1, wanted.count / 3)
        var best: (name: String, distance: Int)?
        for candidate in candidates {
            let distance = distance(wanted, Array(candidate.lowercased().unicodeScalars))
            if distance <= limit, distance < best?.distance ?? Int.max { best = (candidate, distance) }
        }
        return best?.name
    }

    /// `; did you mean "name"?` for a message, or nothing.
    package static func hint(for name: String, among candidates: some Sequence<String>) -> String {
        closest(to: name, among: candidates).map { "; did you mean \(Text.quoted($0))?" } ?? ""
    }

    /// Edits between two names: insertions, deletions, replacements and swaps of neighbours.
    private static func distance(_ left: [Unicode.Scalar], _ right: [Unicode.Scalar]) -> Int {
        guard !left.isEmpty else { return right.count }
        guard !right.isEmpty else { return left.count }
        var beforePrevious: [Int] = []
        var previous = Array(0...right.count)
        for row in 1...left.count {
            var current = [row]
            for column in 1...right.count {
                let replaced = previous[column - 1] + (left[row - 1] == right[column - 1] ? 0 : 1)
                var edits = min(replaced, previous[column] + 1, current[column - 1] + 1)
                if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
                    edits = min(edits, beforePrevious[column - 2] + 1)
                }
                current.append(edits)
            }
            (beforePrevious, previous) = (previous, current)
        }
        return previous[right.count]
    }
}
