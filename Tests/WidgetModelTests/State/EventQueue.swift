@testable import WidgetModel

/// What happens when, the earliest first; of one time in the order in which it was added.
struct EventQueue<Event> {
    private struct Item {
        let time: Timestamp
        let number: Int
        let event: Event

        static func < (left: Item, right: Item) -> Bool {
            left.time != right.time ? left.time < right.time : left.number < right.number
        }
    }

    private var heap: [Item] = []
    private var added = 0

    mutating func add(_ event: Event, at time: Timestamp) {
        added += 1
        heap.append(Item(time: time, number: added, event: event))
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard heap[child] < heap[parent] else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func next() -> (time: Timestamp, event: Event)? {
        guard let first = heap.first, let last = heap.popLast() else { return nil }
        guard !heap.isEmpty else { return (first.time, first.event) }
        heap[0] = last
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < heap.count && heap[child] < heap[least] {
                least = child
            }
            guard least != parent else { return (first.time, first.event) }
            heap.swapAt(parent, least)
            parent = least
        }
    }
}
