internal import WidgetModel

/// A binary heap of appointments: the earliest first, those at one time in the order of their owners.
///
/// An appointment that was superseded stays; its owner knows its present time, as with the work lists.
struct AppointmentHeap {
    struct Entry {
        var time: Timestamp
        var owner: Int32

        static func < (left: Entry, right: Entry) -> Bool {
            left.time == right.time ? left.owner < right.owner : left.time < right.time
        }
    }

    private var entries: [Entry] = []

    /// The earliest entry.
    var first: Entry? { entries.first }

    mutating func push(_ time: Timestamp, _ owner: Int32) {
        let entry = Entry(time: time, owner: owner)
        var place = entries.count
        entries.append(entry)
        while place > 0 {
            let parent = (place - 1) / 2
            guard entry < entries[parent] else { break }
            entries[place] = entries[parent]
            place = parent
        }
        entries[place] = entry
    }

    mutating func removeFirst() {
        let last = entries.removeLast()
        let count = entries.count
        guard count > 0 else { return }
        var place = 0
        while true {
            var child = 2 * place + 1
            guard child < count else { break }
            if child + 1 < count, entries[child + 1] < entries[child] { child += 1 }
            guard entries[child] < last else { break }
            entries[place] = entries[child]
            place = child
        }
        entries[place] = last
    }
}
