import JSON
import Synchronization
import WidgetModel

/// Counts of requests to the sample provider, in bounded memory.
package final class SampleStatistics: Sendable {
    /// Requests that were answered with timelines.
    package struct Counts: Sendable, Equatable {
        package var requests = 0
        /// Timelines in those requests.
        package var timelines = 0
        /// Timelines of those that were answered with an error, as an injected fault.
        var failedTimelines = 0
        /// The most timelines in one request.
        package var largestBatch = 0

        /// Timelines a request; 0 without requests.
        package var meanBatch: Double { requests == 0 ? 0 : Double(timelines) / Double(requests) }

        fileprivate mutating func add(_ timelines: Int, failed: Int) {
            requests += 1
            self.timelines += timelines
            failedTimelines += failed
            largestBatch = max(largestBatch, timelines)
        }

        fileprivate var json: JSONObject {
            [
                "requests": .count(requests), "timelines": .count(timelines),
                "failedTimelines": .count(failedTimelines), "largestBatch": .count(largestBatch),
                "meanBatch": .rounded((meanBatch * 100).rounded() / 100),
            ]
        }
    }

    /// Requests for one kind.
    struct Kind: Sendable, Equatable {
        let app: String
        let kind: String
        var answered = Counts()
    }

    /// All counters at one moment.
    package struct Snapshot: Sendable, Equatable {
        package var answered = Counts()
        /// Requests answered with a server error, as an injected fault.
        var failedRequests = 0
        /// Requests that were refused as malformed, unsigned or unknown.
        var rejectedRequests = 0
        /// Requests for snapshots, placeholders and options.
        var otherRequests = 0
        /// By app and kind, in the order of their names.
        var kinds: [Kind] = []
        /// Timelines that are counted individually.
        var trackedTimelines = 0
    }

    /// The fetches of one timeline.
    struct Fetches: Sendable, Equatable {
        var count: Int
        var lastFetchedAt: Timestamp
        var lastRevision: Int
    }

    /// A timeline as it was answered.
    typealias Answer = (id: String, kind: String, revision: Int, isFailed: Bool)

    private struct State {
        var totals = Snapshot()
        /// By app and kind, such as `bank/DueDate`.
        var kinds: [String: Kind] = [:]
        var fetches: [String: Fetches] = [:]

        mutating func add(_ timelines: Int, failed: Int, of kind: String, _ app: SampleApp) {
            kinds["\(app.rawValue)/\(kind)", default: Kind(app: app.rawValue, kind: kind)]
                .answered.add(timelines, failed: failed)
        }
    }

    private let state = Mutex(State())
    private let maximumTracked: Int

    /// - Parameter maximumTracked: number of timelines that are counted individually; later ones only count in the
    ///   sums.
    init(maximumTracked: Int) {
        self.maximumTracked = maximumTracked
    }

    func countAnswers(app: SampleApp, answers: [Answer], at time: Timestamp) {
        state.withLock { state in
            state.totals.answered.add(answers.count, failed: answers.count { $0.isFailed })
            for (kind, answers) in Dictionary(grouping: answers, by: \.kind) {
                state.add(answers.count, failed: answers.count { $0.isFailed }, of: kind, app)
            }
            for answer in answers {
                let known = state.fetches[answer.id]
                guard known != nil || state.fetches.count < maximumTracked else { continue }
                state.fetches[answer.id] = Fetches(
                    count: (known?.count ?? 0) + 1, lastFetchedAt: time, lastRevision: answer.revision)
            }
        }
    }

    /// Counts timelines in the sums only, for requests that are too frequent to track each timeline.
    ///
    /// - Parameter kinds: of one request, each once.
    func countAnswers(app: SampleApp, kinds: [(name: String, timelines: Int)]) {
        state.withLock { state in
            state.totals.answered.add(kinds.reduce(0) { $0 + $1.timelines }, failed: 0)
            for (kind, timelines) in kinds { state.add(timelines, failed: 0, of: kind, app) }
        }
    }

    func countFailedRequest() {
        state.withLock { $0.totals.failedRequests += 1 }
    }

    func countRejectedRequest() {
        state.withLock { $0.totals.rejectedRequests += 1 }
    }

    func countOtherRequest() {
        state.withLock { $0.totals.otherRequests += 1 }
    }

    var snapshot: Snapshot {
        state.withLock { state in
            var snapshot = state.totals
            snapshot.kinds = state.kinds.values.sorted { ($0.app, $0.kind) < ($1.app, $1.kind) }
            snapshot.trackedTimelines = state.fetches.count
            return snapshot
        }
    }

    /// Fetches of a timeline; nil without any, or if it is not tracked.
    func fetches(of id: String) -> Fetches? {
        state.withLock { $0.fetches[id] }
    }
}

extension SampleStatistics.Snapshot {
    /// The response to `GET /stats`.
    var json: [UInt8] {
        let others: JSONObject = [
            "failedRequests": .count(failedRequests), "rejectedRequests": .count(rejectedRequests),
            "otherRequests": .count(otherRequests), "trackedTimelines": .count(trackedTimelines),
            "kinds": .array(
                kinds.map { kind in
                    let name: JSONObject = ["app": .string(kind.app), "kind": .string(kind.kind)]
                    return .object(JSONObject(name.members + kind.answered.json.members))
                }),
        ]
        return JSONValue.object(JSONObject(answered.json.members + others.members)).encoded
    }
}
