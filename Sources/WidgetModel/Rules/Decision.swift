// SPDX-License-Identifier: Apache-2.0

/// The last decision for a timeline. The raw values are stored: never renumber them.
package enum Decision: Int16, NamedValue {
    case none = 0
    /// Fetched with a visible change; stored and published.
    case reloaded = 1
    /// Fetched without a visible change; neither written nor published.
    case unchanged = 2
    /// The provider failed for this timeline, and the last good content stays.
    case failed = 3
    /// Budgeted work waits for the kind's spacing, or for a budget token.
    case deferred = 4
    /// The worker stopped before the fetch was done and gave the timeline back.
    case released = 5
    /// Not viewed for a long time: no reload by policy until it is viewed, placed or requested.
    case slept = 6
    /// A reload was pending already, and the request is part of it. Never stored.
    case merged = 8
    /// The request could not be applied and became a dead letter. Never stored.
    case refused = 9

    package static let names = nameTable()
}

/// Rule of a decision. The raw values are stored: never renumber them.
package enum ReloadRule: Int16, NamedValue {
    case none = 0

    // Reasons to reload.

    /// A free reason: it takes no budget and waits for no spacing.
    case free = 1
    /// It had never been rendered.
    case first = 2
    /// The app is in developer mode: neither budget nor spacing holds.
    case developerMode = 3
    /// A paced token of the budget covered it.
    case paced = 4
    /// A burst token of the budget covered it.
    case token = 5

    // Reasons to wait.

    /// The kind's least time between two reloads is not over.
    case spacing = 10
    /// Its tokens are spent.
    case budget = 11
    /// It was not viewed for the kind's `dormantAfter`.
    case dormant = 12
    /// A back-off, or the provider's `Retry-After`.
    case backoff = 13
    /// It is being fetched; requests during the fetch are one more reload.
    case inFlight = 14
    /// Nothing is requested, and the policy's time has not come.
    case policy = 15

    // Results.

    /// The visible content is unchanged.
    case gate = 20
    /// The worker stopped.
    case stopped = 21
    /// Kafka did not take the message.
    case output = 22
    /// An operator's command.
    case operatorCommand = 23
    /// Any number of requests before a fetch starts are one reload.
    case coalescing = 24
    /// The event cannot be applied.
    case invalidEvent = 25

    // Failures of the provider.

    case providerRefused = 30
    case providerUnresolved = 31
    case providerConnection = 32
    case providerTimeout = 33
    case providerStatus = 34
    case providerTooLarge = 35
    case providerInvalid = 36
    case providerMissing = 37
    case providerDuplicate = 38
    case providerError = 39
    case storage = 40
    /// It alone makes its provider fail; the rest of its batch was answered.
    case providerPoison = 41
    /// Its provider's circuit breaker is open, or the provider asked for a pause.
    case providerResting = 42
    /// Too many retries of its provider have failed.
    case retryBudget = 43

    package static let names = nameTable([
        .operatorCommand: "operator", .providerRefused: "provider.refused", .providerUnresolved: "provider.unresolved",
        .providerConnection: "provider.connection", .providerTimeout: "provider.timeout",
        .providerStatus: "provider.status", .providerTooLarge: "provider.tooLarge",
        .providerInvalid: "provider.invalid", .providerMissing: "provider.missing",
        .providerDuplicate: "provider.duplicate", .providerError: "provider.error",
        .providerPoison: "provider.poison", .providerResting: "provider.resting",
    ])
}

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
