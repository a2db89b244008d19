/// Results of the reloads of one kind.
package struct KindCounters: Hashable, Sendable {
    /// Requests to the provider, and the timelines asked for in them.
    package var requests = 0
    package var asked = 0

    // By decision.
    package var reloaded = 0
    package var unchanged = 0
    package var failed = 0
    package var deferred = 0
    package var slept = 0
    package var released = 0

    /// Bytes of content written, and of unchanged content, which is not written.
    package var bytesStored = 0
    package var bytesSpared = 0
    /// Messages acknowledged, and messages not published because nothing visible changed.
    package var messagesPublished = 0
    package var messagesSpared = 0

    // Fetched timelines with a lint.
    package var shortGaps = 0
    package var singleEntriesAtEnd = 0
    package var roundHours = 0
    package var severalLinks = 0

    package init() {}

    package typealias Field = any WritableKeyPath<KindCounters, Int> & Sendable

    /// Every counter with its name, in the order in which they are stored and shown.
    package static let fields: [(name: String, path: Field)] = [
        ("requests", \.requests), ("asked", \.asked), ("reloaded", \.reloaded), ("unchanged", \.unchanged),
        ("failed", \.failed), ("deferred", \.deferred), ("slept", \.slept), ("released", \.released),
        ("bytesStored", \.bytesStored), ("bytesSpared", \.bytesSpared), ("messagesPublished", \.messagesPublished),
        ("messagesSpared", \.messagesSpared), ("shortGaps", \.shortGaps), ("singleEntriesAtEnd", \.singleEntriesAtEnd),
        ("roundHours", \.roundHours), ("severalLinks", \.severalLinks),
    ]

    package var isZero: Bool { self == KindCounters() }

    package static func + (left: KindCounters, right: KindCounters) -> KindCounters {
        var sum = left
        for (_, path) in fields { sum[keyPath: path] &+= right[keyPath: path] }
        return sum
    }

    package static func - (left: KindCounters, right: KindCounters) -> KindCounters {
        var difference = left
        for (_, path) in fields { difference[keyPath: path] &-= right[keyPath: path] }
        return difference
    }

    /// Counts timelines with the same decision.
    package mutating func count(_ decision: Decision, _ timelines: Int = 1) {
        switch decision {
        case .reloaded: reloaded += timelines
        case .unchanged: unchanged += timelines
        case .failed: failed += timelines
        case .deferred: deferred += timelines
        case .slept: slept += timelines
        case .released: released += timelines
        // Not decided by workers.
        case .none, .merged, .refused: break
        }
    }

    /// Counts the lints of one fetched timeline.
    package mutating func count(_ lints: TimelineLints) {
        if lints.contains(.shortGap) { shortGaps += 1 }
        if lints.contains(.singleEntryAtEnd) { singleEntriesAtEnd += 1 }
        if lints.contains(.roundHour) { roundHours += 1 }
        if lints.contains(.severalLinks) { severalLinks += 1 }
    }
}
