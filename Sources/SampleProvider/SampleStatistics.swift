import Synchronization
import WidgetModel

/// Counts what the sample provider was asked, in bounded memory.
package final class SampleStatistics: Sendable {
    /// Requests for one kind.
    package struct Kind: Sendable, Equatable {
        package var app: String
        package var kind: String
        /// Answered requests that asked for timelines of the kind.
        var requests = 0
        /// Its timelines that those requests asked for.
        var timelines = 0
        /// Timelines of those that were answered with an error, as a fault that was asked for.
        var failedTimelines = 0
        /// The most timelines of the kind in one request.
        var largestBatch = 0

        /// Timelines a request; 0 without requests.
        var meanBatch: Double { requests == 0 ? 0 : Double(timelines) / Double(requests) }
    }

    /// All counters at one moment.
    package struct Snapshot: Sendable, Equatable {
        /// Requests for timelines that were answered with timelines.
        package var requests = 0
        /// Timelines that those requests asked for.
        package var timelines = 0
        package var failedTimelines = 0
        package var largestBatch = 0
        /// Requests answered with a server error, as a fault that was asked for.
        var failedRequests = 0
        /// Requests refused for what they were: malformed, unsigned, unknown.
        var rejectedRequests = 0
        /// Requests for snapshots, placeholders and options.
        var otherRequests = 0
        /// By app and kind, in the order of their names.
        var kinds: [Kind] = []
        /// Timelines whose own counts are known.
        package var trackedTimelines = 0

        /// Timelines a request; 0 without requests.
        package var meanBatch: Double { requests == 0 ? 0 : Double(timelines) / Double(requests) }
    }

    /// The fetches of one timeline.
    struct Fetches: Sendable, Equatable {
        var count: Int
        var lastFetchedAt: Timestamp
        var lastRevision: Int
    }

    /// A timeline as it was answered.
    struct Answer: Sendable {
        var id: String
        var kind: String
        var revision: Int
        var isFailed: Bool
    }

    private struct KindKey: Hashable {
        let app: String
        let kind: String
    }

    private struct State {
        var totals = Snapshot()
        var kinds: [KindKey: Kind] = [:]
        var fetches: [String: Fetches] = [:]
    }

    private let state = Mutex(State())
    private let maximumTracked: Int

    /// - Parameter maximumTracked: how many timelines are counted one by one; those that come later are only in the
    ///   sums.
    init(maximumTracked: Int) {
        self.maximumTracked = maximumTracked
    }

    func answered(app: SampleApp, answers: [Answer], at time: Timestamp) {
        state.withLock { state in
            state.totals.add(answers.count, failed: answers.count { $0.isFailed })
            for (kind, answers) in Dictionary(grouping: answers, by: \.kind) {
                state.kinds[KindKey(app: app.rawValue, kind: kind), default: Kind(app: app.rawValue, kind: kind)]
                    .add(answers.count, failed: answers.count { $0.isFailed })
            }
            for answer in answers {
                let fetches = Fetches(count: 1, lastFetchedAt: time, lastRevision: answer.revision)
                if let known = state.fetches[answer.id] {
                    state.fetches[answer.id] = Fetches(
                        count: known.count + 1, lastFetchedAt: time, lastRevision: answer.revision)
                } else if state.fetches.count < maximumTracked {
                    state.fetches[answer.id] = fetches
                }
            }
        }
    }

    /// Only sums: for what is asked too often to be counted one by one.
    ///
    /// - Parameter kinds: of one request, each once.
    func answered(app: SampleApp, kinds: [(name: String, timelines: Int)]) {
        state.withLock { state in
            state.totals.add(kinds.reduce(0) { $0 + $1.timelines }, failed: 0)
            for (kind, timelines) in kinds {
                state.kinds[KindKey(app: app.rawValue, kind: kind), default: Kind(app: app.rawValue, kind: kind)]
                    .add(timelines, failed: 0)
            }
        }
    }

    func failedRequest() {
        state.withLock { $0.totals.failedRequests += 1 }
    }

    func rejectedRequest() {
        state.withLock { $0.totals.rejectedRequests += 1 }
    }

    func otherRequest() {
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

    /// The fetches of the timeline with this id; nil when there were none, or it came after the bound was reached.
    func fetches(of id: String) -> Fetches? {
        state.withLock { $0.fetches[id] }
    }
}

extension SampleStatistics.Kind {
    /// Counts an answered request.
    fileprivate mutating func add(_ timelines: Int, failed: Int) {
        requests += 1
        self.timelines += timelines
        failedTimelines += failed
        largestBatch = max(largestBatch, timelines)
    }
}

extension SampleStatistics.Snapshot {
    /// Counts an answered request.
    fileprivate mutating func add(_ timelines: Int, failed: Int) {
        requests += 1
        self.timelines += timelines
        failedTimelines += failed
        largestBatch = max(largestBatch, timelines)
    }

    /// The response to `GET /stats`.
    var json: [UInt8] {
        var writer = SampleWriter(reserving: 1_024)
        writer.beginObject()
        writer.key("requests")
        writer.integer(requests)
        writer.key("timelines")
        writer.integer(timelines)
        writer.key("failedTimelines")
        writer.integer(failedTimelines)
        writer.key("largestBatch")
        writer.integer(largestBatch)
        writer.key("meanBatch")
        writer.hundredths(Int((meanBatch * 100).rounded()))
        writer.key("failedRequests")
        writer.integer(failedRequests)
        writer.key("rejectedRequests")
        writer.integer(rejectedRequests)
        writer.key("otherRequests")
        writer.integer(otherRequests)
        writer.key("trackedTimelines")
        writer.integer(trackedTimelines)
        writer.key("kinds")
        writer.beginArray()
        for kind in kinds {
            writer.beginObject()
            writer.key("app")
            writer.string(kind.app)
            writer.key("kind")
            writer.string(kind.kind)
            writer.key("requests")
            writer.integer(kind.requests)
            writer.key("timelines")
            writer.integer(kind.timelines)
            writer.key("failedTimelines")
            writer.integer(kind.failedTimelines)
            writer.key("largestBatch")
            writer.integer(kind.largestBatch)
            writer.key("meanBatch")
            writer.hundredths(Int((kind.meanBatch * 100).rounded()))
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}
