import PostgresClient
import WidgetModel
import WidgetStore

/// What single statements took, by name.
struct StatementTimes: Sendable {
    private(set) var histograms: [String: LatencyHistogram] = [:]
    /// Timelines that went through all of mark, claim, save and complete, and how long those took.
    var timelines = 0
    var busy = Duration.zero

    mutating func record(_ name: String, _ time: Duration) {
        histograms[name, default: LatencyHistogram()].record(time)
    }

    func summary(_ name: String) -> LatencySummary {
        histograms[name]?.summary ?? LatencySummary()
    }

    var timelinesPerSecond: Double { Double(timelines) / max(busy / .seconds(1), 0.000_001) }

    /// Runs and times something.
    mutating func time<Value: Sendable>(
        _ name: String, _ body: () async throws -> Value
    ) async throws -> Value {
        let start = ContinuousClock.now
        let value = try await body()
        record(name, start.duration(to: .now))
        return value
    }
}

/// The workers' and ingest's own statements back to back, without Kafka and HTTP, with real batch sizes, on one connection.
struct StatementRounds: Sendable {
    let population: LoadPopulation
    let pool: PostgresPool
    /// Marks in a statement, and timelines in a claim.
    let batch: Int
    /// Bytes of what is stored anew; 0: nothing.
    let contentBytes: Int
    /// As the sweeper has it.
    var sweepChunk = 1_000

    /// Marks, claims, saves and completes the timelines of some people.
    ///
    /// - Parameters:
    ///   - version: of the content; other than the stored one, it is written.
    ///   - since: when the earliest of what may be due became due; nil: look for all.
    /// - Returns: when the latest of them became due.
    /// - Throws: ``CommandFailure`` when not all of them went through.
    @discardableResult
    func reload(
        _ indices: [Int], version: Int, since: Timestamp? = nil, _ times: inout StatementTimes
    ) async throws -> Timestamp? {
        let start = ContinuousClock.now
        let marks = indices.enumerated().map { position, index in
            TimelineMark(
                appID: population.appID, audienceID: population.world.user(of: index),
                kindID: population.kind(index).id,
                matching: nil, events: 1, urgency: .budgeted, lane: ReloadLane.push.rawValue,
                cause: EventPosition(topic: 0, partition: 0, offset: Int64(position)), reason: .push)
        }
        _ = try await times.time("apply") { try await pool.query(MarkUsers(marks, limit: 100)) }
        _ = try await times.time("due") {
            guard let since else { return try await pool.query(DueWork(limit: batch)) }
            let queues = population.kinds.flatMap { kind in
                ReloadLane.allCases.map { ClaimWish(kindID: kind.id, lane: $0, count: 0, since: since) }
            }
            return try await pool.due(since: queues, limit: batch)
        }
        let claimed = try await claim(.push, count: indices.count, since: since, name: "claim", &times)
        guard claimed.count == indices.count else {
            throw CommandFailure(.failure, "\(claimed.count) of \(indices.count) marked timelines could be claimed")
        }
        if contentBytes > 0 {
            let writes = claimed.map { timeline in
                ContentWrite(
                    id: timeline.id, claim: timeline.claim,
                    hash: ContentHash(high: timeline.id.high, low: UInt64(version)),
                    content: LoadPopulation.content(Int(timeline.claim), version: version, bytes: contentBytes),
                    tid: timeline.tid)
            }
            _ = try await times.time("save") { try await pool.query(SaveContentInPlace(writes)) }
        }
        try await complete(claimed, version: version, &times)
        times.timelines += claimed.count
        times.busy += start.duration(to: .now)
        return claimed.map(\.dueAt).max()
    }

    private func claim(
        _ lane: ReloadLane, count: Int, since: Timestamp? = nil, name: String, _ times: inout StatementTimes
    ) async throws -> [ClaimedTimeline] {
        let wishes = population.kinds.map { ClaimWish(kindID: $0.id, lane: lane, count: count, since: since) }
        return try await times.time(name) {
            try await pool.claim(wishes, lease: .seconds(60))
        }
    }

    private func complete(_ claimed: [ClaimedTimeline], version: Int, _ times: inout StatementTimes) async throws {
        let completions = claimed.map { timeline in
            Completion(
                id: timeline.id, claim: timeline.claim, requested: timeline.requested,
                kindGeneration: timeline.kindGeneration, appGeneration: timeline.appGeneration,
                publishedHash: ContentHash(high: timeline.id.high, low: UInt64(version)),
                nextReload: timeline.claimedAt + .seconds(86_400), jitter: .zero, spacing: .zero,
                decision: .reloaded, reason: .push, tid: timeline.tid)
        }
        _ = try await times.time("complete") { try await pool.query(CompleteTimelinesInPlace(completions)) }
    }

    /// A reload of everyone: the one update.
    func bump(_ times: inout StatementTimes) async throws {
        let bump = GenerationBump(
            id: population.appID, events: 1, urgency: .budgeted,
            cause: EventPosition(topic: 0, partition: 0, offset: 1), reason: .push)
        _ = try await times.time("global") { try await pool.execute(BumpApps([bump])) }
    }

    /// A chunk of each kind is swept, claimed and completed.
    func sweep(version: Int, _ times: inout StatementTimes) async throws {
        for kind in population.kinds {
            _ = try await times.time("sweep") {
                try await pool.execute(SweepKind(kindID: kind.id, limit: sweepChunk))
            }
        }
        let claimed = try await claim(.bulk, count: sweepChunk, name: "claim swept", &times)
        try await complete(claimed, version: version, &times)
    }

    /// One widget's current timeline, as the API reads it.
    func read(_ index: Int, _ times: inout StatementTimes) async throws {
        let placement = population.world.placement(index)
        let start = ContinuousClock.now
        let widget = try await pool.query(
            ListWidgets(WidgetFilter(app: placement.app, widget: placement.widget), limit: 1)
        ).first
        guard let id = widget?.timelineID,
            try await pool.query(ReadTimeline(id: id, app: placement.app)).first != nil
        else { throw CommandFailure(.failure, "the widget \(placement.widget) shows no timeline") }
        times.record("read", start.duration(to: .now))
    }
}
