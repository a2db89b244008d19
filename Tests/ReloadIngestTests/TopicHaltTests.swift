// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Failures of an app or a topic delay no other", .timeLimit(.patience))
struct TopicHaltTests {
    private let good = TestKinds.app
    private let other = TestKinds.otherApp

    /// A change in an app, which goes to a different topic than pushes.
    private func change(_ app: String, kinds: KindScope = .all) -> FreshetEvent {
        .reload(ReloadRequest(app: app, audience: .everyone, kinds: kinds, reason: .background))
    }

    /// Puts two apps over their limit, which halts the topic of pushes.
    private func withHaltedTopic(
        _ body: (IngestHarness, IngestService, IngestHalt) async throws -> Void
    ) async throws {
        try await IngestHarness.lend(deadLetters: .few(haltingApps: 2)) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish((0..<6).map { _ in ingest.bad(good) })
                try await ingest.waitUntilApplied(6)
                #expect(service.halts.isEmpty)
                try await ingest.publish((0..<6).map { _ in ingest.bad(other) })
                try await eventually("the topic is halted") { !service.halts.isEmpty }
                try await body(ingest, service, try #require(service.halts.first))
            }
        }
    }

    @Test("Several apps over their limit halt the topic, with the cause, the apps and the command to resume it")
    func haltForApps() async throws {
        try await withHaltedTopic { ingest, _, halt in
            #expect(halt.cause == .apps && halt.apps == [good, other])
            #expect(halt.topic == ingest.configuration.topics.pushes)
            #expect("\(halt)".contains(#"has no kind "Later""#))
            #expect("\(halt)".contains("freshet ingest resume --topic \(halt.topic)"))
        }
    }

    @Test("The offsets of a halted topic stay until an operator resumes it")
    func resumed() async throws {
        try await withHaltedTopic { ingest, service, halt in
            try await ingest.publish((0..<10).map { _ in ingest.everyone(other) })
            try await ingest.publish([change(other)])
            try await ingest.waitUntilApplied(13)
            #expect(try await ingest.letters("topic <> '\(halt.topic)' AND cause = 'diverted'") == 1)

            #expect(try await ingest.store.pool.query(.resumeTopics(topic: halt.topic)) == [halt.topic])
            try await ingest.waitUntilApplied(23)
            try await eventually("the halt is over") { service.halts.isEmpty }
            #expect(try await ingest.letters("cause = 'unknownKind'") == 12)
            #expect(try await ingest.letters("cause = 'diverted'") == 11)
        }
    }

    @Test("Too many messages without an app halt only their own topic until it is resumed")
    func haltForNameless() async throws {
        try await IngestHarness.lend(deadLetters: .few()) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publishGarbage(6)
                try await eventually("the topic is halted") { service.halts.first?.cause == .nameless }
                #expect(service.halts.first?.detail.contains("malformedJSON") == true)
                try await ingest.publish([ingest.everyone(good), change(good)])
                try await ingest.waitUntilApplied(7)
                #expect(try await ingest.generation(of: good) == 1)

                // Another process reads the halt from the database at its start.
                let second = ingest.service()
                try await ingest.running([second]) {
                    try await eventually("the second process reads") {
                        second.metrics.ingestPartitions.total() > 0
                    }
                    try await ingest.publish((0..<8).map { _ in change(good) })
                    try await ingest.waitUntilApplied(15)
                }
                var pipeline = PostgresPipeline()
                _ = pipeline.append(.forgetFailures())
                _ = pipeline.append(.resumeTopics())
                _ = try await ingest.store.pool.run(pipeline, commits: true)
                try await ingest.waitUntilApplied(16)
            }
            #expect(try await ingest.generation(of: good) == 10)
            #expect(try await ingest.letters("cause = 'malformed' AND app IS NULL") == 6)
        }
    }

    @Test("Resuming a topic forgets only that topic's failures")
    func forgetsOne() async throws {
        try await withStore { store in
            let counts = ["a", "b"].map { FailureCount(appID: 0, topic: $0, letters: 3, events: 3) }
            _ = try await store.pool.query(.countFailures(counts, limits: .few()))
            #expect(try await store.pool.execute(.forgetFailures(topic: "a")) == 1)
            #expect(try await store.integer("SELECT count(*) FROM dead_letter_window WHERE topic = 'b'") == 1)
            #expect(try await store.pool.execute(.forgetFailures()) == 1)
        }
    }

    @Test(
        "Garbage on a topic of a single app diverts that app, then halts the topic; the other app's events are applied",
        arguments: [false, true])
    func ownTopic(namesAnother: Bool) async throws {
        try await IngestHarness.lend(deadLetters: .few(haltingApps: 1)) { ingest in
            let own = ingest.configuration.topics.appChanges
            let service = ingest.service(configure: { $0.topics.allowedApps = [own: [good]] })
            func garbage() async throws {
                if namesAnother {
                    try await ingest.publish((0..<6).map { _ in change(other) })
                } else {
                    try await ingest.publishGarbage(6, to: own)
                }
            }
            try await ingest.running([service]) {
                try await garbage()
                try await ingest.waitUntilApplied(6)
                try await eventually("the app is diverted, and its own topic is halted") {
                    service.divertedApps == [good] && service.halts.map(\.topic) == [own]
                }
                #expect(try await !ingest.isDiverted(other))
                _ = try await ingest.store.pool.query(.resumeTopics())
                try await eventually("the topic is resumed") { service.halts.isEmpty }
                try await garbage()
                try await eventually("the topic is halted") { service.halts.map(\.topic) == [own] }
                #expect(service.halts.first?.cause == .nameless)
                try await ingest.publish((0..<20).map { _ in ingest.everyone(other) })
                try await ingest.waitUntilApplied(32)
                #expect(try await ingest.generation(of: other) == 20)
            }
        }
    }

    @Test(
        "An app whose failed events exceed its quota, by number or bytes, is diverted",
        arguments: [false, true])
    func quota(ofBytes: Bool) async throws {
        var limits = DeadLetterLimits()
        (limits.quota.letters, limits.quota.bytes) = ofBytes ? (1_000, 500) : (3, 1 << 30)
        try await IngestHarness.lend(deadLetters: limits) { [limits] ingest in
            try await ingest.running([ingest.service(configure: Self.unlimited)]) {
                try await ingest.publish((0..<4).map { _ in ingest.bad() } + [ingest.bad(other)])
                try await ingest.waitUntilApplied(5)
            }
            let restrictions = IngestRestrictions(
                pool: ingest.store.pool, limits: limits, interval: .seconds(1), logger: IngestHarness.quiet)
            try await restrictions.enforceQuotas()
            #expect(try await ingest.isDiverted() && restrictions.quotaUse > 1)
            #expect(try await !ingest.isDiverted(other))
            #expect(restrictions.halts.isEmpty && restrictions.divertedNames == [good])
        }
    }

    @Test(
        "A diverted app over its quota of waiting events has its own topic halted or its events dropped; others are applied",
        arguments: [false, true])
    func tooManyWait(isShared: Bool) async throws {
        var limits = DeadLetterLimits.few()
        limits.waiting.letters = 10
        try await IngestHarness.lend(partitions: 1, deadLetters: limits) { ingest in
            let topic = ingest.configuration.topics.pushes
            let kept = EventHandling(keepsOutcome: true)
            try await ingest.running([ingest.service(configure: Self.unlimited)]) {
                try await ingest.publish((0..<6).map { _ in ingest.bad() })
                try await ingest.waitUntilApplied(6)
                try await ingest.publish((0..<20).map { _ in ingest.everyone(good) })
                try await ingest.waitUntilApplied(26)
            }
            // The waiting events are counted at the start.
            let service = ingest.service(configure: {
                $0.topics.allowedApps = [topic: isShared ? [good, other] : [good]]
            })
            try await ingest.running([service]) {
                try await eventually("the quota is enforced") {
                    !service.restrictions.fullApps.isEmpty || !service.halts.isEmpty
                }
                let halt = service.halts.first
                #expect(isShared ? halt == nil : halt?.topic == topic && halt?.apps == [good] && halt?.cause == .full)
                let others = isShared ? ingest.everyone(other) : change(other)
                try await ingest.publish([ingest.everyone(good), ingest.bad(), others, others])
                try await ingest.publish([ingest.everyone(good)], handling: kept, id: "lost")
                try await eventually("the other app's events are applied") {
                    try await ingest.generation(of: other) == 2
                }
                if isShared { try await ingest.waitUntilApplied(31) }
                // The position is stored before the service counts.
                try await eventually("dropped events are counted") {
                    service.metrics.ingestEvents.total(["outcome": "dropped"]) == (isShared ? 3 : 0)
                }
                #expect(try await ingest.letters("replayed_at IS NULL") == 26)
                let lost = EventName(app: good, id: "lost")
                let outcome = try await ingest.store.pool.query(.readEventOutcome(lost)).first
                #expect(outcome?.code == (isShared ? "dropped" : nil) && outcome?.result == (isShared ? .ignored : nil))

                #expect(try await ingest.replayer.resume(app: good).outcome.replayed == 20)
                _ = try await ingest.store.pool.query(.resumeTopics())
                // A dropped event takes effect when it is published again.
                try await ingest.publish([ingest.everyone(good)], handling: kept, id: "lost")
                try await ingest.waitUntilApplied(32)
                #expect(try await ingest.generation(of: good) == (isShared ? 21 : 22))
                #expect(service.restrictions.fullApps.isEmpty && service.halts.isEmpty)
            }
        }
    }

    @Test("Too many waiting events of unregistered apps halt a topic of one app")
    func full() async throws {
        var limits = DeadLetterLimits.few()
        limits.waiting.letters = 10
        try await IngestHarness.lend(deadLetters: limits) { [limits] ingest in
            let own = ingest.configuration.topics.appChanges
            try await ingest.running([ingest.service(configure: Self.unlimited)]) {
                try await ingest.publish((0..<11).map { _ in change(Self.nobody) } + [ingest.everyone(Self.nobody)])
                try await ingest.waitUntilApplied(12)
            }
            let restrictions = IngestRestrictions(
                pool: ingest.store.pool, limits: limits, allowedApps: [own: [Self.nobody]], interval: .seconds(1),
                logger: IngestHarness.quiet)
            try await restrictions.enforceQuotas()
            #expect(restrictions.halts.map(\.topic) == [own])
            #expect(restrictions.halts.first?.apps == [] && restrictions.halts.first?.cause == .full)
            try await ingest.store.sql("UPDATE dead_letter SET discarded_at = now() WHERE app = '\(Self.nobody)'")
            _ = try await ingest.store.pool.query(.resumeTopics())
            try await restrictions.enforceQuotas()
            try await restrictions.refresh()
            #expect(restrictions.halts.isEmpty && restrictions.quotaUse < 1)
        }
    }

    @Test("Too many waiting events of unregistered apps are dropped on a shared topic, whose other events are applied")
    func fullOfStrangers() async throws {
        var limits = DeadLetterLimits.few()
        limits.waiting.letters = 10
        try await IngestHarness.lend(partitions: 1, deadLetters: limits) { ingest in
            try await ingest.running([ingest.service(configure: Self.unlimited)]) {
                try await ingest.publish((0..<11).map { _ in ingest.everyone(Self.nobody) })
                try await ingest.waitUntilApplied(11)
            }
            // The waiting events are counted at the start.
            let service = ingest.service()
            try await ingest.running([service]) {
                try await eventually("the quota is enforced") { !service.restrictions.fullTopics.isEmpty }
                #expect(
                    service.restrictions.fullTopics == [ingest.configuration.topics.pushes] && service.halts.isEmpty)
                try await ingest.publishGarbage(1)
                try await ingest.publish([ingest.everyone(Self.nobody), ingest.everyone(good), change(Self.nobody)])
                try await eventually("the events are applied") { try await ingest.generation(of: good) == 1 }
                try await eventually("dropped events are counted") {
                    service.metrics.ingestEvents.total(["outcome": "dropped"]) == 2
                }
                try await eventually("those of the other topic are kept") {
                    try await ingest.letters("app = '\(Self.nobody)'") == 12
                }

                // Once it is registered, its events are applied though the topic is full, and can be replayed.
                try await ingest.register(Self.nobody)
                try await ingest.publish([ingest.everyone(Self.nobody)])
                try await eventually("the event is applied") { try await ingest.generation(of: Self.nobody) == 1 }
                #expect(service.metrics.ingestEvents.total(["outcome": "dropped"]) == 2)
                try await ingest.store.sql("UPDATE dead_letter SET discarded_at = now()")
                try await service.restrictions.enforceQuotas()
                #expect(service.restrictions.fullTopics.isEmpty)
            }
        }
    }

    @Test("Counting waiting events takes at most a twentieth of the time, regardless of their number")
    func pace() {
        #expect(IngestRestrictions.interval(true, .milliseconds(10)) == .seconds(10))
        #expect(IngestRestrictions.interval(true, .seconds(2)) == .seconds(40))
        #expect(IngestRestrictions.interval(true, .seconds(60)) == .seconds(300))
        #expect(IngestRestrictions.interval(false, .milliseconds(10)) == .seconds(300))
    }

    private static let nobody = "com.example.nobody"

    /// For a service whose quotas are enforced by the test.
    private static func unlimited(_ configuration: inout IngestConfiguration) {
        let defaults = DeadLetterLimits()
        (configuration.deadLetters.quota, configuration.deadLetters.waiting) = (defaults.quota, defaults.waiting)
    }
}
