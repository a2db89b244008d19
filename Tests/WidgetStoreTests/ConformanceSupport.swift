import PostgresClient
import TestSupport
import WidgetModel
import WidgetStore

/// Random rows and what is to happen to them: of each column the values that make a difference.
struct TimelineGenerator: Sendable {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    private mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    private mutating func any<Value>(_ values: [Value]) -> Value { values[Int(next() % UInt64(values.count))] }

    private mutating func flag(oneIn count: UInt64 = 2) -> Bool { next() % count == 0 }

    private mutating func count(upTo most: Int64) -> Int64 { Int64(next() % UInt64(most + 1)) }

    /// Not in the next minute: the sweeper's lane goes by the clock, which is later than `now()`.
    private mutating func time(around now: Timestamp) -> Timestamp {
        any([
            .distantPast, now - .seconds(3600), now - .microseconds(1), now, now + .seconds(90), now + .seconds(1234),
            .distantFuture,
        ])
    }

    mutating func timeline(at now: Timestamp) -> TimelineStateMachine {
        let time = time(around: now)
        var timeline = TimelineStateMachine(phase: flag() ? .leased(until: time) : .waiting(until: time))
        // Earlier than all that the sequence gives.
        timeline.claim = count(upTo: 3) - 5
        timeline.requested = count(upTo: 6)
        timeline.rendered = count(upTo: timeline.requested)
        timeline.freeRequested = count(upTo: timeline.requested)
        timeline.renderedKindGeneration = count(upTo: 3)
        timeline.renderedAppGeneration = count(upTo: 3)
        timeline.sweptGeneration = count(upTo: 6)
        timeline.retryAt = flag() ? .distantPast : self.time(around: now)
        timeline.eligibleAt = self.time(around: now)
        timeline.freeAt = flag() ? .distantPast : self.time(around: now)
        timeline.policyAt = self.time(around: now)
        timeline.renderedAt = flag(oneIn: 4) ? nil : now - .seconds(count(upTo: 5000))
        timeline.requestedAt = flag(oneIn: 3) ? nil : now - .seconds(count(upTo: 5000))
        timeline.lane = any(ReloadLane.allCases)
        timeline.attempts = any([0, 3, 32_767])
        timeline.viewClass = any(ViewClass.allCases + [.dormant, .dormant])
        timeline.decision = any([.none, .reloaded, .unchanged, .failed, .deferred])
        timeline.ledger = ledger(at: now)
        timeline.publishedHash = flag(oneIn: 3) ? nil : ContentHash(high: next(), low: next())
        timeline.isOrphaned = flag(oneIn: 3)
        return timeline
    }

    /// As the sweeper leaves rows that wait for nothing else.
    mutating func sweptOnly(_ timeline: TimelineStateMachine) -> TimelineStateMachine {
        var timeline = timeline
        timeline.phase = .waiting(until: timeline.dueAt)
        timeline.lane = .bulk
        timeline.rendered = timeline.requested
        timeline.renderedAt = timeline.requestedAt
        timeline.sweptGeneration = count(upTo: 3)
        timeline.isOrphaned = false
        return timeline
    }

    private mutating func ledger(at now: Timestamp) -> BudgetLedger {
        var ledger = BudgetLedger()
        for _ in 0..<count(upTo: 4) { ledger.spend(of: 8, at: now - .seconds(count(upTo: 80_000))) }
        return ledger
    }

    private mutating func generation() -> ReloadGeneration {
        let current = count(upTo: 3)
        let free = count(upTo: current)
        return ReloadGeneration(current: current, free: free, forced: count(upTo: free))
    }

    mutating func scope() -> ScopeGenerations {
        ScopeGenerations(kind: generation(), app: generation(), cancelled: flag() ? 0 : count(upTo: 6))
    }

    mutating func reason() -> ReloadReason { any([.push, .background, .foreground, .environment, .operator]) }

    mutating func lane() -> ReloadLane { any([.interactive, .push, .bulk]) }

    mutating func events() -> Int64 { 1 + count(upTo: 1000) }

    mutating func delay() -> Duration { .milliseconds(any([0, 1, 30_000])) }

    mutating func isShown() -> Bool { flag() }

    /// A claim as it was at some time before: mostly the row's own, of what had been asked for by then.
    mutating func claim(
        of timeline: TimelineStateMachine, in scope: ScopeGenerations, at now: Timestamp
    ) -> TimelineClaim {
        TimelineClaim(
            number: flag(oneIn: 5) ? timeline.claim - 1 : timeline.claim, lane: timeline.lane, claimedAt: now,
            requested: flag() ? timeline.requested : count(upTo: timeline.requested),
            kindGeneration: flag() ? scope.kind.current : count(upTo: scope.kind.current),
            appGeneration: flag() ? scope.app.current : count(upTo: scope.app.current), attempts: timeline.attempts,
            isOrphaned: timeline.isOrphaned, state: ReloadState(need: .policy))
    }

    mutating func completion(of claim: TimelineClaim, at now: Timestamp) -> TimelineCompletion {
        TimelineCompletion(
            claim: claim, publishedHash: flag() ? nil : ContentHash(high: next(), low: next()),
            eligibleAt: any([.distantPast, now, now + .seconds(900)]),
            policyAt: flag(oneIn: 4) ? nil : time(around: now), jitter: .milliseconds(any([0, 7, 250_000])),
            spacing: .milliseconds(any([0, 500, 300_000])), isShared: flag(), ledger: ledger(at: now),
            viewClass: any([.often, .regular, .seldom]), decision: any([.reloaded, .unchanged]))
    }
}

// MARK: - Statements

/// The time that `now()` has for all of a transaction.
struct TransactionTime: PostgresStatement {
    static let sql = "SELECT now()"

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Timestamp {
        Timestamp(try row.value(0, as: PostgresTimestamp.self))
    }
}

/// Makes a kind's and its app's generations what a case wants.
struct WriteScope: PostgresStatement {
    static let sql = """
        WITH apps AS (
            UPDATE app SET generation = $1::int8, free_generation = $2::int8, operator_generation = $3::int8
            WHERE id = $7::int4
        )
        UPDATE kind SET generation = $4::int8, free_generation = $5::int8, operator_generation = $6::int8,
                        cancelled_generation = $9::int8
        WHERE id = $8::int4
        """

    let scope: ScopeGenerations
    let appID: Int32
    let kindID: Int32

    func bind(_ parameters: inout PostgresParameters) {
        for generation in [scope.app, scope.kind] {
            parameters.append(generation.current)
            parameters.append(generation.free)
            parameters.append(generation.forced)
        }
        parameters.append(appID)
        parameters.append(kindID)
        parameters.append(scope.cancelled)
    }
}

/// Makes a hot row what a case wants.
struct WriteTimeline: PostgresStatement {
    static let sql = """
        UPDATE timeline_state
        SET leased = $2::bool, due_at = $3::timestamptz, claim = $4::int8, requested = $5::int8, rendered = $6::int8,
            free_requested = $7::int8, rendered_kind_generation = $8::int8, rendered_app_generation = $9::int8,
            swept_generation = $10::int8, retry_at = $11::timestamptz, eligible_at = $12::timestamptz,
            free_at = $13::timestamptz, policy_at = $14::timestamptz, rendered_at = $15::timestamptz,
            requested_at = $16::timestamptz, lane = $17::int2, attempts = $18::int2, view_class = $19::int2,
            last_decision = $20::int2, decided_at = now(), budget = $21::bytea, published_hash = $22::uuid, orphaned = $23::bool
        WHERE timeline_id = $1::uuid
        """

    let timeline: TimelineStateMachine
    let id: TimelineID

    func bind(_ parameters: inout PostgresParameters) {
        parameters.append(PostgresUUID(id))
        parameters.append(timeline.isLeased)
        parameters.append(PostgresTimestamp(timeline.dueAt))
        parameters.append(timeline.claim)
        parameters.append(timeline.requested)
        parameters.append(timeline.rendered)
        parameters.append(timeline.freeRequested)
        parameters.append(timeline.renderedKindGeneration)
        parameters.append(timeline.renderedAppGeneration)
        parameters.append(timeline.sweptGeneration)
        parameters.append(PostgresTimestamp(timeline.retryAt))
        parameters.append(PostgresTimestamp(timeline.eligibleAt))
        parameters.append(PostgresTimestamp(timeline.freeAt))
        parameters.append(PostgresTimestamp(timeline.policyAt))
        parameters.append(timeline.renderedAt.map { PostgresTimestamp($0) })
        parameters.append(timeline.requestedAt.map { PostgresTimestamp($0) })
        parameters.append(timeline.lane.rawValue)
        parameters.append(Int16(timeline.attempts))
        parameters.append(timeline.viewClass.rawValue)
        parameters.append(timeline.decision.rawValue)
        parameters.append(timeline.ledger.stored.map { PostgresBytes($0) })
        parameters.append(timeline.publishedHash.map { PostgresUUID($0) })
        parameters.append(timeline.isOrphaned)
    }
}

/// A hot row as the state machine has it.
struct ReadHotRow: PostgresStatement {
    static let sql = """
        SELECT leased, due_at, claim, requested, rendered, free_requested, rendered_kind_generation,
               rendered_app_generation, swept_generation, retry_at, eligible_at, free_at, policy_at, rendered_at,
               requested_at, lane, attempts, view_class, last_decision, budget, published_hash, orphaned
        FROM timeline_state WHERE timeline_id = $1::uuid
        """

    let id: TimelineID

    func bind(_ parameters: inout PostgresParameters) {
        parameters.append(PostgresUUID(id))
    }

    static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineStateMachine {
        let dueAt = try time(row, 1)
        var timeline = TimelineStateMachine(phase: try row.value(0) ? .leased(until: dueAt) : .waiting(until: dueAt))
        timeline.claim = try row.value(2)
        timeline.requested = try row.value(3)
        timeline.rendered = try row.value(4)
        timeline.freeRequested = try row.value(5)
        timeline.renderedKindGeneration = try row.value(6)
        timeline.renderedAppGeneration = try row.value(7)
        timeline.sweptGeneration = try row.value(8)
        timeline.retryAt = try time(row, 9)
        timeline.eligibleAt = try time(row, 10)
        timeline.freeAt = try time(row, 11)
        timeline.policyAt = try time(row, 12)
        timeline.renderedAt = try row.optional(13, as: PostgresTimestamp.self).map { Timestamp($0) }
        timeline.requestedAt = try row.optional(14, as: PostgresTimestamp.self).map { Timestamp($0) }
        timeline.lane = ReloadLane(rawValue: try row.value(15)) ?? .bulk
        timeline.attempts = Int(try row.value(16, as: Int16.self))
        timeline.viewClass = ViewClass(rawValue: try row.value(17)) ?? .often
        timeline.decision = Decision(rawValue: try row.value(18)) ?? .none
        let stored = try row.optional(19, as: PostgresBytes.self)?.bytes
        guard let ledger = BudgetLedger(stored: stored) else {
            throw PostgresError(.misuse, "no ledger: \(stored ?? [])")
        }
        timeline.ledger = ledger
        timeline.publishedHash = try row.optional(20, as: PostgresUUID.self).map { ContentHash($0) }
        timeline.isOrphaned = try row.value(21)
        return timeline
    }

    private static func time(_ row: borrowing PostgresRow, _ column: Int) throws(PostgresError) -> Timestamp {
        Timestamp(try row.value(column, as: PostgresTimestamp.self))
    }
}
