/// How relevant an entry is, and for how long.
package struct EntryRelevance: Hashable, Sendable {
    /// Compared only within one widget; not positive means not relevant.
    package let score: Double
    /// In seconds from the entry's date; 0 lasts until the next entry that has a relevance.
    package let duration: Double

    package init(score: Double, duration: Double = 0) {
        self.score = score
        self.duration = duration
    }
}

/// Content of a widget from a date on.
package struct TimelineEntry: Hashable, Sendable {
    package let date: Timestamp
    /// The app's own, opaque to Freshet.
    package let content: JSONValue
    package let relevance: EntryRelevance?
    /// Where a tap leads.
    package let url: String?

    package init(date: Timestamp, content: JSONValue, relevance: EntryRelevance? = nil, url: String? = nil) {
        self.date = date
        self.content = content
        self.relevance = relevance
        self.url = url
    }
}

/// At least one entry in the order of their dates, and when to reload.
package struct Timeline: Hashable, Sendable {
    /// Never empty; of equal dates the one that the provider gave first comes first.
    package let entries: [TimelineEntry]
    package let policy: ReloadPolicy

    /// Sorts the entries stably by date; nil when there are none.
    package init?(entries: [TimelineEntry], policy: ReloadPolicy) {
        guard !entries.isEmpty else { return nil }
        self.entries = StableOrder.indices(of: entries, by: \.date).map { entries[$0] }
        self.policy = policy
    }

    package var firstEntryDate: Timestamp { entries[0].date }
    package var lastEntryDate: Timestamp { entries[entries.count - 1].date }

    /// The entry shown at a time: the last one whose date is not later; nil before the first.
    package func entry(at time: Timestamp) -> TimelineEntry? {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].date <= time { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? entries[low - 1] : nil
    }
}

/// Sorting that keeps the order of equals.
enum StableOrder {
    static func indices<Element>(of elements: [Element], by key: (Element) -> Timestamp) -> [Int] {
        elements.indices.sorted { left, right in
            let (leftKey, rightKey) = (key(elements[left]), key(elements[right]))
            return leftKey != rightKey ? leftKey < rightKey : left < right
        }
    }
}
