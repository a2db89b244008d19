import Synchronization
import WidgetStore

/// How many events of each app this process has applied since it last wrote a failure of the app down, within the window:
/// what the failed ones are a share of. So an app without failures costs the database nothing.
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

    /// The failures of a batch by app, each with the events that they are among. An app that is diverted already has
    /// failed enough; one that is not registered has not failed.
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

    /// Notes a batch that was committed.
    ///
    /// - Parameter counted: the apps whose events, up to this batch, the database has.
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
