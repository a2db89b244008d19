import Synchronization
import WidgetStore

/// Numbers of applied events by app since the app's last recorded failure, within the window. Failures are compared
/// with them, and apps without failures need no database access.
final class EventTally: Sendable {
    private struct State {
        var events: [Int32: Int64] = [:]
        var all: Int64 = 0
        /// Value of `all` at the last recorded failure of a topic.
        var counted: [String: Int64] = [:]
        var began = ContinuousClock.now
    }

    private let window: Duration
    private let allowedApps: [String: Set<String>]
    private let state = Mutex(State())

    init(window: Duration, allowedApps: [String: Set<String>]) {
        self.window = window
        self.allowedApps = allowedApps
    }

    /// Failures of a batch by app, with the numbers of events. Diverted and unregistered apps are not counted.
    ///
    /// The producer of an event without an app, or with an app that its topic may not carry, is unknown. Such failures
    /// are charged to the apps that the topic may carry, or to the topic if all of those are diverted or it may carry
    /// any.
    ///
    /// - Parameter topic: topic of an event.
    func counts(
        _ rejected: [RejectedEvent], in fold: BatchFold, topic: (RejectedEvent) -> String
    ) -> [FailureCount] {
        guard !rejected.isEmpty else { return [] }
        var apps: [Int32: FailureCount] = [:]
        var topics: [String: FailureCount] = [:]
        func charge(_ id: Int32, _ topic: String, isNamed: Bool) {
            var count = apps[id] ?? FailureCount(appID: id, topic: topic, letters: 0, events: 0)
            count.topic = topic
            count.letters += 1
            // The others are among the fold's events of the app.
            if !isNamed { count.events += 1 }
            apps[id] = count
        }
        for event in rejected {
            let (cause, topic) = (DeadLetterCause(code: event.code), topic(event))
            if let name = event.app, cause != .notAllowed {
                guard cause.isFault, let app = fold.registeredApp(name), !fold.isDiverted(app.id) else { continue }
                charge(app.id, topic, isNamed: true)
                continue
            }
            let payers = (allowedApps[topic] ?? []).compactMap { fold.registeredApp($0)?.id }
                .filter { !fold.isDiverted($0) }
            for id in payers { charge(id, topic, isNamed: false) }
            guard payers.isEmpty else { continue }
            topics[topic, default: .init(appID: FailureCount.nameless, topic: topic, letters: 0, events: 0)]
                .letters += 1
        }
        return state.withLock { state in
            if state.began.duration(to: .now) > window { state = State() }
            for id in apps.keys {
                apps[id]?.events += state.events[id, default: 0] + fold.events[id, default: 0]
            }
            for topic in topics.keys {
                topics[topic]?.events = state.all - state.counted[topic, default: 0] + fold.eventCount
            }
            return apps.values.sorted { $0.appID < $1.appID } + topics.values.sorted { $0.topic < $1.topic }
        }
    }

    /// Adds a committed batch.
    ///
    /// - Parameter counted: apps and topics whose events up to this batch are in the database.
    func committed(_ fold: BatchFold, counted: [FailureTotals]) {
        state.withLock { state in
            if state.began.duration(to: .now) > window { state = State() }
            for (appID, events) in fold.events {
                state.events[appID, default: 0] += events
            }
            state.all += fold.eventCount
            for row in counted {
                if row.appID == FailureCount.nameless {
                    state.counted[row.topic] = state.all
                } else {
                    state.events[row.appID] = nil
                }
            }
        }
    }
}
