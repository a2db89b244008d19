// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel

/// Counts of requests to the sample provider, in bounded memory.
package struct SampleStatistics: Sendable, Equatable {
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

        fileprivate var members: JSONObject {
            [
                "requests": .count(requests), "timelines": .count(timelines),
                "failedTimelines": .count(failedTimelines), "largestBatch": .count(largestBatch),
                "meanBatch": .rounded((meanBatch * 100).rounded() / 100),
            ]
        }
    }

    /// The fetches of one timeline.
    struct Fetches: Sendable, Equatable {
        var count: Int
        var lastFetchedAt: Timestamp
        var lastRevision: Int

        /// The response to `GET /stats/timelines/ID`.
        func json(id: String) -> JSONValue {
            [
                "id": .string(id), "fetches": .count(count), "lastRevision": .count(lastRevision),
                "lastFetchedAt": .time(lastFetchedAt),
            ]
        }
    }

    /// A timeline as it was answered.
    typealias Answer = (request: SampleRequest, revision: Int, isFailed: Bool)

    package private(set) var answered = Counts()
    /// Requests answered with a server error, as an injected fault.
    package var failedRequests = 0
    /// Requests that were refused as malformed, unsigned or unknown.
    var rejectedRequests = 0
    /// Requests for snapshots, placeholders and options.
    var otherRequests = 0
    private(set) var kinds: [SampleApp: [String: Counts]] = [:]
    /// By the timeline's id.
    private(set) var fetches: [String: Fetches] = [:]
    /// Number of timelines that are counted individually; later ones only count in the sums.
    let maximumTracked: Int

    init(maximumTracked: Int) {
        self.maximumTracked = maximumTracked
    }

    mutating func count(_ answers: [Answer], of app: SampleApp, at time: Timestamp) {
        answered.add(answers.count, failed: answers.count { $0.isFailed })
        for (kind, answers) in Dictionary(grouping: answers, by: \.request.kind) {
            kinds[app, default: [:]][kind, default: Counts()].add(answers.count, failed: answers.count { $0.isFailed })
        }
        for answer in answers {
            let id = answer.request.id
            let known = fetches[id]
            guard known != nil || fetches.count < maximumTracked else { continue }
            fetches[id] = Fetches(count: (known?.count ?? 0) + 1, lastFetchedAt: time, lastRevision: answer.revision)
        }
    }

    /// Counts timelines in the sums only, for requests that are too frequent to track each timeline.
    ///
    /// - Parameter answered: the kinds of one request, each once.
    mutating func count(_ answered: [(name: String, timelines: Int)], of app: SampleApp) {
        self.answered.add(answered.reduce(0) { $0 + $1.timelines }, failed: 0)
        for (kind, timelines) in answered {
            kinds[app, default: [:]][kind, default: Counts()].add(timelines, failed: 0)
        }
    }

    /// The response to `GET /stats`: kinds in the order of their apps and names.
    var json: JSONValue {
        let kinds = kinds.sorted { $0.key.rawValue < $1.key.rawValue }.flatMap { app, counts in
            counts.sorted { $0.key < $1.key }.map { kind, counts -> JSONValue in
                let name: JSONObject = ["app": .string(app.rawValue), "kind": .string(kind)]
                return .object(JSONObject(name.members + counts.members.members))
            }
        }
        let others: JSONObject = [
            "failedRequests": .count(failedRequests), "rejectedRequests": .count(rejectedRequests),
            "otherRequests": .count(otherRequests), "trackedTimelines": .count(fetches.count), "kinds": .array(kinds),
        ]
        return .object(JSONObject(answered.members.members + others.members))
    }
}
