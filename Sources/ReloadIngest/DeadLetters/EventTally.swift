import Synchronization
import WidgetStore

/// Numbers of applied events by app since the app's last recorded failure, within the window. Failures are compared with
/// them, and apps without failures need no database access.
final class EventTally: Sendable {
    private struct State {
        var events: [Int32: Int64] = [:]
        var all: Int64 = 0
        var began = ContinuousClock.now
    }

    private let window: Duration
    private let state = Mutex(State())

    init(window: Duration) {
        self.window = window
    }

    /// Failures of a batch by app, with the numbers of events. Diverted and unregistered apps are not counted.
    func counts(_ rejected: [RejectedEvent], in fold: BatchFold) -> [CountFailures.Count] {
        guard !rejected.isEmpty else { return [] }
        let diverted = Set(fold.divertedAppsOfBatch)
        var letters: [Int32: Int64] = [:]
        for event in rejected where DeadLetterCause(code: event.code).isFault {
            guard let name = event.app else {
                letters[CountFailures.nameless, default: 0] += 1
                continue
            }
            guard let app = fold.registeredApp(name), !diverted.contains(app.id) else { continue }
            letters[app.id, default: 0] += 1
        }
        guard !letters.isEmpty else { return [] }
        return state.withLock { state in
            if state.began.duration(to: .now) > window { state = State() }
            return letters.sorted { $0.key < $1.key }.map { appID, count in
                let events =
                    appID == CountFailures.nameless
                    ? state.all + fold.eventCount : state.events[appID, default: 0] + fold.events[appID, default: 0]
                return CountFailures.Count(appID: appID, letters: count, events: max(events, count))
            }
        }
    }

    /// Adds a committed batch.
    ///
    /// - Parameter counted: apps whose events up to this batch are in the database.
    func committed(_ fold: BatchFold, counted: some Sequence<Int32>) {
        let counted = Set(counted)
        state.withLock { state in
            if state.began.duration(to: .now) > window { state = State() }
            for (appID, events) in fold.events {
                state.events[appID, default: 0] += events
            }
            state.all += fold.eventCount
            for appID in counted {
                if appID == CountFailures.nameless { state.all = 0 } else { state.events[appID] = nil }
            }
        }
    }
}
