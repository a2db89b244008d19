import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Random rows through the statements and through `TimelineStateMachine`, which is their specification: they must agree on
/// every column. All of one case happens in one transaction, so at one `now()`, and is rolled back.
@Suite("The statements that change a hot row do what the state machine says", .timeLimit(.minutes(5)))
struct ConformanceTests {
    enum Event: String, CaseIterable, Sendable {
        case request, requestOfEveryone, requestOfManyWidgets, sweep, cancel, place, orphan, view, republish, claim
        case complete, fail, release, wait, sleep, collect
    }

    @Test("rows and answers", arguments: Event.allCases)
    func conforms(event: Event) async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let subject = try await ConformanceSubject(store: store, id: id)
            for seed in UInt64(0)..<120 {
                let random = TimelineGenerator(seed: seed)
                let result = try await subject.compare(event, random)
                guard result.found == result.expected else {
                    Issue.record("\(event), seed \(seed): \(result.differences)\nbefore: \(result.before)")
                    return
                }
            }
        }
    }
}

/// What a case has come to.
struct ConformanceResult: Sendable {
    var before: TimelineStateMachine
    /// Nil when the row is gone.
    var found: TimelineStateMachine?
    var expected: TimelineStateMachine?
    var foundAnswer = ""
    var expectedAnswer = ""

    /// Name, what the statement did and what the state machine says of all that they disagree on.
    var differences: String {
        guard let found, let expected else {
            return "the row is \(found == nil ? "gone" : "there"), and should be \(expected == nil ? "gone" : "there")"
        }
        let names = Mirror(reflecting: expected).children.compactMap(\.label)
        let pairs = zip(Mirror(reflecting: found).children, Mirror(reflecting: expected).children)
        return zip(names, pairs).compactMap { name, pair in
            let (found, expected) = ("\(pair.0.value)", "\(pair.1.value)")
            return found == expected ? nil : "\(name) is \(found), should be \(expected)"
        }.joined(separator: "; ")
    }
}

/// One timeline of one widget in a database, whose row is written as a case wants it.
struct ConformanceSubject: Sendable {
    let store: TestStore
    let id: TimelineID
    let appID: Int32
    let kindID: Int32
    let identity: TimelineIdentity

    /// Carries the result out of the transaction, which it rolls back.
    private struct RolledBack: Error {
        let result: ConformanceResult
    }

    init(store: TestStore, id: TimelineID) async throws {
        self.store = store
        self.id = id
        let directory = try await store.directory()
        let app = try #require(directory.apps[TestKinds.app])
        let kind = try #require(directory.kind("Purchases", of: app))
        appID = app.id
        kindID = kind.id
        identity = kind.definition.identity(of: .test("w1"))
        #expect(identity.id == id)
    }

    func compare(_ event: ConformanceTests.Event, _ generator: TimelineGenerator) async throws -> ConformanceResult {
        do {
            return try await store.pool.withTransaction { connection in
                var generator = generator
                let now = try #require(try await connection.query(TransactionTime()).first)
                var before = generator.timeline(at: now)
                if event == .cancel { before = generator.sweptOnly(before) }
                let scope = generator.scope()
                _ = try await connection.execute(WriteTimeline(timeline: before, id: id))
                _ = try await connection.execute(WriteScope(scope: scope, appID: appID, kindID: kindID))
                var result = ConformanceResult(before: before, found: nil, expected: before)
                var situation = Situation(
                    timeline: before, scope: scope, now: now, generator: generator, connection: connection)
                try await apply(event, &situation)
                result.expected = situation.isGone ? nil : situation.timeline
                result.found = try await connection.query(ReadHotRow(id: id)).first
                #expect(situation.foundAnswer == situation.expectedAnswer, "\(event) of \(before)")
                throw RolledBack(result: result)
            }
        } catch let end as RolledBack {
            return end.result
        }
    }

    /// A case under way: the row as it should be, and what both sides answer.
    private struct Situation {
        var timeline: TimelineStateMachine
        let scope: ScopeGenerations
        let now: Timestamp
        var generator: TimelineGenerator
        let connection: PostgresConnection
        var isGone = false
        var foundAnswer = ""
        var expectedAnswer = ""
    }

    private func apply(_ event: ConformanceTests.Event, _ situation: inout Situation) async throws {
        switch event {
        case .request: try await request(&situation)
        case .requestOfEveryone: try await bulkRequest(&situation, of: .everyone)
        case .requestOfManyWidgets: try await bulkRequest(&situation, of: .user("u1"))
        case .sweep:
            let rows = try await situation.connection.execute(SweepKind(kindID: kindID, limit: 10))
            let outcome = situation.timeline.sweep(to: situation.scope, at: situation.now)
            situation.foundAnswer = "\(rows)"
            situation.expectedAnswer = outcome == nil ? "0" : "1"
        case .cancel:
            let upTo = situation.scope.sum
            let row = try await situation.connection.query(
                CancelTimelines(kindID: kindID, generation: upTo, after: .start, limit: 10)
            ).first
            situation.foundAnswer = "\(row?.cancelled ?? -1)"
            situation.expectedAnswer = situation.timeline.cancel(upTo: upTo) ? "1" : "0"
        case .place, .orphan, .view: try await widget(event, &situation)
        case .republish:
            _ = try await situation.connection.query(RepublishTimelines([id]))
            situation.timeline.republish(claim: try await newClaim(situation), at: situation.now)
        case .claim: try await claim(&situation)
        case .complete, .fail, .release, .wait, .sleep, .collect: try await end(event, &situation)
        }
    }

    /// The number that the statement took for a claim.
    private func newClaim(_ situation: Situation) async throws -> Int64 {
        let row = try #require(try await situation.connection.query(ReadHotRow(id: id)).first)
        #expect(row.claim > situation.timeline.claim)
        return row.claim
    }

    // MARK: Requests

    private func request(_ situation: inout Situation) async throws {
        let reason = situation.generator.reason()
        let events = situation.generator.events()
        let mark = TimelineMark(
            appID: appID, audienceID: "w1", kindID: nil, matching: nil, events: events, urgency: reason.urgency,
            lane: reason.lane.rawValue, cause: EventPosition(topic: 0, partition: 0, offset: 1), reason: reason)
        let outcome = try #require(try await situation.connection.query(MarkWidgets([mark])).first)
        situation.foundAnswer = "\(outcome.marked) \(outcome.due)"
        let expected = situation.timeline.request(
            events: events, urgency: reason.urgency, lane: reason.lane, at: situation.now)
        situation.expectedAnswer = "1 \(expected == .due ? 1 : 0)"
    }

    private func bulkRequest(_ situation: inout Situation, of audience: SweepRequest.Audience) async throws {
        let reason = situation.generator.reason()
        let events = situation.generator.events()
        let connection = situation.connection
        _ = try await connection.execute(
            InsertSweep(
                SweepRequest(
                    appID: appID, audience: audience, kindIDs: [kindID], matching: nil, events: events,
                    urgency: reason.urgency, cause: EventPosition(topic: 0, partition: 0, offset: 1), reason: reason)))
        _ = try await connection.execute(StartSweeps(limit: 10))
        let sweep = try #require(try await connection.query(NextSweep()).first)
        let outcome =
            audience == .everyone
            ? try await connection.query(SweepEveryoneChunk(sweep, kindID: kindID, limit: 10)).first
            : try await connection.query(SweepAudienceChunk(sweep, limit: 10)).first
        situation.foundAnswer = "\(outcome?.marked ?? -1)"
        situation.expectedAnswer = "1"
        _ = situation.timeline.request(
            events: events, urgency: reason.urgency, lane: reason.lane, isBulk: true,
            isAddressed: audience != .everyone, at: situation.now)
    }

    private func widget(_ event: ConformanceTests.Event, _ situation: inout Situation) async throws {
        let connection = situation.connection
        switch event {
        case .place:
            let lane = situation.generator.lane()
            let placed = try await connection.query(
                PlaceTimelines([
                    TimelinePlacement(
                        id: id, kindID: kindID, identity: identity, lane: lane, cause: nil, reason: .placed)
                ])
            ).first
            let outcome = situation.timeline.place(lane: lane, in: situation.scope, at: situation.now)
            situation.foundAnswer = "\(placed ?? -1)"
            situation.expectedAnswer = outcome == nil ? "0" : "1"
        case .orphan:
            try await connection.simple("UPDATE widget SET timeline_id = NULL")
            _ = try await connection.execute(OrphanTimelines([id]))
            situation.timeline.orphan(at: situation.now)
        default:
            let outcome = try await connection.query(
                RecordViews([WidgetViews(appID: appID, widget: "w1", times: [situation.now])])
            ).first
            situation.foundAnswer = "\(outcome?.woken ?? -1)"
            situation.expectedAnswer = situation.timeline.view(at: situation.now) ? "1" : "0"
        }
    }

    // MARK: Claims

    private func claim(_ situation: inout Situation) async throws {
        let lane = situation.timeline.lane
        let claimed = try await situation.connection.query(
            ClaimTimelines([ClaimWish(kindID: kindID, lane: lane, count: 10)], lease: .seconds(30))
        ).first
        let number = claimed == nil ? 0 : try await newClaim(situation)
        let expected = situation.timeline.claim(
            number: number, lease: .seconds(30), in: situation.scope, views: claimed?.state.views ?? ViewStatistics(),
            at: situation.now)
        let found = claimed.map { claimed in
            TimelineClaim(
                number: claimed.claim, lane: claimed.lane, claimedAt: claimed.claimedAt, requested: claimed.requested,
                kindGeneration: claimed.kindGeneration, appGeneration: claimed.appGeneration,
                attempts: Int(claimed.attempts), isOrphaned: claimed.isOrphaned, state: claimed.state)
        }
        situation.foundAnswer = "\(String(describing: found))"
        situation.expectedAnswer = "\(String(describing: expected))"
    }

    /// Ends a claim, most often that which the row has, with generations that are those of the row or older.
    private func end(_ event: ConformanceTests.Event, _ situation: inout Situation) async throws {
        let connection = situation.connection
        let now = situation.now
        let claim = situation.generator.claim(of: situation.timeline, in: situation.scope, at: now)
        let delay = situation.generator.delay()
        let ended = EndedClaim(
            id: id, claim: claim.number, delay: delay, decision: event == .fail ? .failed : .released)
        switch event {
        case .complete: try await complete(claim, &situation)
        case .fail:
            situation.foundAnswer = "\(try await connection.execute(FailTimelines([ended])))"
            let ending = situation.timeline.fail(claim, delay: delay, at: now)
            situation.expectedAnswer = ending == .fenced ? "0" : "1"
        case .release:
            situation.foundAnswer = "\(try await connection.execute(ReleaseTimelines([ended])))"
            let ending = situation.timeline.release(claim, delay: delay, at: now)
            situation.expectedAnswer = ending == .fenced ? "0" : "1"
        case .wait, .sleep:
            let until = event == .wait ? now + .seconds(1) + delay : nil
            let rows = try await connection.query(
                DeferTimelines([
                    Deferral(
                        id: id, claim: claim.number, requested: claim.requested, kindGeneration: claim.kindGeneration,
                        appGeneration: claim.appGeneration, until: until, lastActive: now, rule: .budget,
                        reason: .policy, cause: nil)
                ]))
            situation.foundAnswer = rows.first.map { "\($0.isDue)" } ?? "fenced"
            let ending =
                until.map { situation.timeline.wait(claim, until: $0, at: now) }
                ?? situation.timeline.sleep(claim, at: now)
            situation.expectedAnswer = ending == .fenced ? "fenced" : "\(situation.timeline.isDue(at: now))"
        default:
            let isShown = situation.generator.isShown()
            if !isShown { try await connection.simple("UPDATE widget SET timeline_id = NULL") }
            _ = try await connection.query(LockTimelines([id]))
            let deleted = try await connection.query(CollectTimelines([(id, claim.number)])).first
            situation.foundAnswer = "\(deleted ?? -1)"
            let ending = situation.timeline.collect(claim, isShown: isShown, at: now)
            situation.isGone = ending == .collected
            situation.expectedAnswer = ending == .collected ? "1" : "0"
        }
    }

    private func complete(_ claim: TimelineClaim, _ situation: inout Situation) async throws {
        let now = situation.now
        let completion = situation.generator.completion(of: claim, at: now)
        let rows = try await situation.connection.query(
            CompleteTimelines([
                Completion(
                    id: id, claim: claim.number, requested: claim.requested, kindGeneration: claim.kindGeneration,
                    appGeneration: claim.appGeneration, publishedHash: completion.publishedHash,
                    nextReload: completion.policyAt, jitter: completion.jitter, spacing: completion.spacing,
                    isShared: completion.isShared, eligibleAt: completion.eligibleAt, ledger: completion.ledger,
                    viewClass: completion.viewClass, decision: completion.decision)
            ]))
        situation.foundAnswer =
            rows.first.map { "\($0.isDue) \(String(describing: $0.dueAt)) \($0.eligibleAt)" } ?? "fenced"
        let ending = situation.timeline.complete(completion, at: now)
        let due = situation.timeline.dueAt
        let dueAt: Timestamp? = due == .distantFuture ? nil : due
        situation.expectedAnswer =
            ending == .fenced
            ? "fenced" : "\(due <= now) \(String(describing: dueAt)) \(situation.timeline.eligibleAt)"
    }
}
