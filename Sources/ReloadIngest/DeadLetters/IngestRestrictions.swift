// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import Synchronization
import WidgetStore

/// The diverted apps and the halted topics as last read. Every batch's transaction checks them again in the database.
///
/// Events of a diverted app become dead letters. Events of a halted topic stay in Kafka.
final class IngestRestrictions: Sendable {
    private struct State {
        var diverted: [Int32: Diversion] = [:]
        var halts: [IngestHalt] = []
        var fullTopics: Set<String> = []
        /// Whether dead letters came since they were counted.
        var hasNewLetters = true
        var quotaUse = 0.0
    }

    /// Least interval of counts of waiting events (dead letters) while new ones come.
    private static let countInterval = Duration.seconds(10)
    /// Interval of counts while no new ones come, and greatest interval.
    private static let quietInterval = Duration.seconds(300)
    /// Least ratio of the interval to the duration of a count, up to the greatest interval, so that counting many
    /// events takes a small part of the time.
    private static let countPace = 20

    private let pool: PostgresPool
    private let limits: DeadLetterLimits
    private let allowedApps: [String: Set<String>]
    private let interval: Duration
    private let logger: Logger
    private let state = Mutex(State())

    init(
        pool: PostgresPool, limits: DeadLetterLimits, allowedApps: [String: Set<String>] = [:], interval: Duration,
        logger: Logger
    ) {
        (self.pool, self.limits, self.allowedApps) = (pool, limits, allowedApps)
        (self.interval, self.logger) = (interval, logger)
    }

    /// Ids of the diverted apps.
    var divertedApps: Set<Int32> { state.withLock { Set($0.diverted.keys) } }

    /// Names of the diverted apps.
    var divertedNames: [String] { state.withLock { $0.diverted.values.map(\.app).sorted() } }

    /// Ids of diverted apps whose events are no longer kept.
    var fullApps: Set<Int32> {
        state.withLock { state in Set(state.diverted.values.lazy.filter { $0.fullAt != nil }.map(\.appID)) }
    }

    /// Topics whose further events of no registered app are no longer kept.
    var fullTopics: Set<String> { state.withLock { $0.fullTopics } }

    /// The halted topics.
    var halts: [IngestHalt] { state.withLock { $0.halts } }

    /// Largest ratio of waiting events to their limit, of all apps and topics, at the last count. It can exceed 1.
    var quotaUse: Double { state.withLock { $0.quotaUse } }

    /// Records that dead letters were stored, so that the next round counts them.
    func noteNewLetters() { state.withLock { $0.hasNewLetters = true } }

    /// Reads the diverted apps and the halted topics, and logs changes.
    ///
    /// - Throws: `PostgresError`.
    func refresh() async throws {
        var pipeline = PostgresPipeline()
        let halts = pipeline.append(.listHalts())
        let full = pipeline.append(.listFullTopics())
        let diversions = pipeline.append(.listDiversions(countLimit: 0))
        let results = try await pool.run(pipeline)
        let diverted = Dictionary(results.rows(diversions).map { ($0.appID, $0) }) { $1 }
        set(halts: results.rows(halts))
        set(fullTopics: Set(results.rows(full)))
        let old = state.withLock { state in
            let old = state.diverted
            state.diverted = diverted
            return old
        }
        for (id, diversion) in diverted {
            let metadata: Logger.Metadata = [
                "app": "\(diversion.app)", "command": "freshet dead-letters resume --app \(diversion.app)",
            ]
            if old[id] == nil {
                logger.critical("an app is over its limit of dead letters: its events are diverted", metadata: metadata)
            }
            if diversion.fullAt != nil, old[id]?.fullAt == nil {
                logger.critical("no more events of a diverted app are kept: its events are dropped", metadata: metadata)
            }
        }
        for (id, diversion) in old {
            if diversion.fullAt != nil, diverted[id]?.fullAt == nil {
                logger.notice("no event of an app is dropped any more", metadata: ["app": "\(diversion.app)"])
            }
            if diverted[id] == nil {
                logger.notice("an app is not diverted any more", metadata: ["app": "\(diversion.app)"])
            }
        }
    }

    private func set(fullTopics: Set<String>) {
        let old = state.withLock { state in
            let old = state.fullTopics
            state.fullTopics = fullTopics
            return old
        }
        for topic in fullTopics.subtracting(old).sorted() {
            logger.critical(
                "no more events of unregistered apps are kept on a topic: they are dropped",
                metadata: ["topic": "\(topic)", "command": "freshet dead-letters list"])
        }
        for topic in old.subtracting(fullTopics).sorted() {
            logger.notice("no event of an unregistered app is dropped any more", metadata: ["topic": "\(topic)"])
        }
    }

    private func set(halts: [IngestHalt]) {
        let old = state.withLock { state in
            let old = state.halts
            state.halts = halts
            return old
        }
        for halt in halts where !old.contains(halt) {
            logger.critical(
                "a topic is halted until an operator resumes it",
                metadata: ["topic": "\(halt.topic)", "error": "\(halt)", "command": "\(halt.command)"])
        }
        for halt in old where !halts.contains(where: { $0.topic == halt.topic }) {
            logger.notice("a topic is resumed", metadata: ["topic": "\(halt.topic)"])
        }
    }

    /// Refreshes at intervals and enforces the quotas, until it is cancelled.
    ///
    /// - Throws: `CancellationError`.
    func watch() async throws {
        var counted: (at: ContinuousClock.Instant, took: Duration)?
        while true {
            await reporting("the diverted apps and halted topics were not read") { try await refresh() }
            // Dropped events store no dead letters. Counting goes on to notice when there is room again.
            let hasNewLetters = state.withLock { $0.hasNewLetters || !$0.fullTopics.isEmpty } || !fullApps.isEmpty
            if counted.map({ $0.at.duration(to: .now) >= Self.interval(hasNewLetters, $0.took) }) ?? true {
                let begun = ContinuousClock.now
                await reporting("the quotas of waiting events were not enforced") {
                    try await PostgresPool.inBackground { try await enforceQuotas() }
                }
                counted = (.now, begun.duration(to: .now))
            }
            try await Task.sleep(for: self.interval)
        }
    }

    /// Returns the time between two counts of waiting events.
    ///
    /// - Parameter took: duration of the last count, which may have failed.
    static func interval(_ hasNewLetters: Bool, _ took: Duration) -> Duration {
        hasNewLetters ? min(quietInterval, max(countInterval, took * countPace)) : quietInterval
    }

    /// Runs one step and logs its failure; the next round tries again.
    private func reporting(_ message: Logger.Message, _ body: () async throws -> Void) async {
        do {
            try await body()
        } catch {
            guard !Task.isCancelled else { return }
            logger.warning(message, metadata: ["error": "\(error)"])
        }
    }

    /// Enforces the quotas of waiting events: diverts apps, drops events and halts topics, so that the database does
    /// not fill.
    func enforceQuotas() async throws {
        state.withLock { $0.hasNewLetters = false }
        do {
            guard try await enforceQuotas(on: try await pool.query(.waitingLetters())) else { return }
            try await refresh()
        } catch {
            noteNewLetters()
            throw error
        }
    }

    /// Diverts apps over their quota. For a diverted app over the limit of waiting events, halts the topics that only
    /// it may use, and drops its further events on shared topics, since other apps must not wait for it. Treats events
    /// of no registered app likewise.
    ///
    /// - Returns: whether something changed.
    private func enforceQuotas(on waiting: [WaitingLetters]) async throws -> Bool {
        var (pipeline, largest) = (PostgresPipeline(), 0.0)
        var full: Set<Int32> = []
        var fullTopics: Set<String> = []
        func halt(_ topic: String, _ apps: [String], _ whose: String) {
            _ = pipeline.append(.lockTopicState(topic: topic))
            _ = pipeline.append(
                .haltTopic(
                    topic: topic, cause: .full, apps: apps,
                    detail: "\(whose): `freshet dead-letters resume` or `replay` or `discard` them"))
        }
        for rows in Dictionary(grouping: waiting, by: \.appID).values.sorted(by: { $0[0].topic < $1[0].topic }) {
            guard let id = rows[0].appID, let app = rows[0].app else {
                for row in rows {
                    let use = limits.waiting.use(letters: row.count, bytes: row.bytes)
                    largest = max(largest, use)
                    guard use > 1 else { continue }
                    if allowedApps[row.topic]?.count == 1 {
                        halt(row.topic, [], "they are of no registered app")
                    } else {
                        fullTopics.insert(row.topic)
                    }
                }
                continue
            }
            let letters = rows.reduce(0) { $0 + $1.count }
            let bytes = rows.reduce(0) { $0 + $1.bytes }
            let isDiverted = rows[0].isDiverted
            let use = (isDiverted ? limits.waiting : limits.quota).use(letters: letters, bytes: bytes)
            largest = max(largest, use)
            guard use > 1 else { continue }
            if !isDiverted {
                _ = pipeline.append(.beginDiversion(appID: id, letters: letters))
                continue
            }
            let own = allowedApps.filter { $0.value == [app] }.keys
            for topic in own.sorted() { halt(topic, [app], "they are of a diverted app") }
            if rows.contains(where: { !own.contains($0.topic) }) { full.insert(id) }
        }
        state.withLock { $0.quotaUse = largest }
        if full != fullApps { _ = pipeline.append(.setFullDiversions(full.sorted())) }
        if fullTopics != self.fullTopics { _ = pipeline.append(.setFullTopics(fullTopics.sorted())) }
        guard !pipeline.isEmpty else { return false }
        _ = try await pool.run(pipeline, commits: true)
        return true
    }
}

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
        let events = fold.events
        return state.withLock { state in
            if state.began.duration(to: .now) > window { state = State() }
            for id in apps.keys {
                apps[id]?.events += state.events[id, default: 0] + events[id, default: 0]
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
    func committed(_ fold: BatchFold, counted: [FailureCount]) {
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
