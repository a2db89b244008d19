// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// A type of event with a countable effect.
struct CountedSort: Sendable, CustomTestStringConvertible {
    let testDescription: String
    /// Returns the events of a round, counted from 0.
    let events: @Sendable (_ round: Int) -> [FreshetEvent]
    /// Query of a single integer, the effect so far.
    let effect: String
    /// Effect of one round.
    let perRound: Int
    var audienceLimit: Int?

    private static func request(
        _ audience: Audience, kinds: KindScope, matching: WidgetConfiguration? = nil
    ) -> FreshetEvent {
        .reload(ReloadRequest(app: TestKinds.app, audience: audience, kinds: kinds, matching: matching, reason: .push))
    }

    static let purchases = KindScope(names: ["Purchases"]) ?? .all

    static let all: [CountedSort] = [
        CountedSort(
            testDescription: "bumps",
            events: { _ in [request(.everyone, kinds: purchases), request(.everyone, kinds: .all)] },
            effect: "SELECT sum(generation) FROM kind", perRound: 4),
        CountedSort(
            testDescription: "marks",
            events: { _ in
                [
                    request(.user("u0"), kinds: purchases), request(.device("d0"), kinds: .all),
                    request(.widget("w0"), kinds: .all),
                ]
            },
            effect: "SELECT sum(requested) FROM timeline", perRound: 3),
        CountedSort(
            testDescription: "lifecycle",
            events: { round in
                let configuration = #"{"n":\#(round)}"#
                return [
                    .placed(.test("a\(round)", user: "u1", configuration: configuration)),
                    .placed(.test("b\(round)", user: "u1", configuration: configuration)),
                ]
            },
            effect: "SELECT (SELECT count(*) FROM widget) + (SELECT sum(requested) FROM timeline)", perRound: 3),
        CountedSort(
            testDescription: "views", events: { _ in [.viewed(app: TestKinds.app, widget: "w0")] },
            effect: "SELECT sum(views) FROM timeline", perRound: 1),
        CountedSort(
            testDescription: "dead letters",
            events: { _ in [.viewed(app: "com.example.unknown", widget: "w0")] },
            effect: "SELECT count(*) FROM dead_letter", perRound: 1),
        CountedSort(
            testDescription: "sweeps",
            events: { _ in
                [
                    request(
                        .everyone, kinds: purchases,
                        matching: WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#))
                ]
            },
            effect: "SELECT coalesce(sum(events), 0) FROM sweep", perRound: 1),
        CountedSort(
            testDescription: "sweeps of large audiences",
            events: { _ in [request(.user("many"), kinds: purchases)] },
            effect: "SELECT coalesce(sum(events), 0) FROM sweep", perRound: 1, audienceLimit: 1),
    ]

    /// Places the widgets that the events name.
    static func place(in store: TestStore) async throws {
        try await store.place([
            .test("w0", user: "u0", device: "d0"), .test("m1", user: "many", configuration: #"{"n":1}"#),
            .test("m2", user: "many", configuration: #"{"n":2}"#),
        ])
        try await store.settle()
    }

    /// Returns the time of a round. Rounds are an hour apart, so that every view counts.
    static func time(of round: Int) -> Timestamp {
        Timestamp(microseconds: 1_700_000_000_000_000) + .seconds(3_600 * round)
    }
}

@Suite("A connection lost at any message loses and duplicates no event", .timeLimit(.patience))
struct ConnectionLossTests {
    private static let cuts: [@Sendable (Int) -> TestProxy.MessageCut] = [
        { TestProxy.MessageCut(.toServer, $0) }, { TestProxy.MessageCut(.toServer, $0, isPassedOn: true) },
        { TestProxy.MessageCut(.toClient, $0) },
    ]

    @Test("Every event counts once when the connection is cut at each message in turn", arguments: CountedSort.all)
    func everyMessage(of sort: CountedSort) async throws {
        try await IngestHarness.lend(partitions: 1, audienceLimit: sort.audienceLimit) { ingest in
            try await CountedSort.place(in: ingest.store)
            let before = try await ingest.store.integer(sort.effect)
            try await ingest.store.throughProxy { proxied in
                // Long intervals keep other queries of the service off the connection, but let it take a partition
                // that it has lost.
                let service = ingest.service(
                    on: proxied.pool,
                    configure: { configuration in
                        configuration.memberInterval = .seconds(20)
                        configuration.memberTimeout = .seconds(3_600)
                        configuration.directoryAge = .seconds(3_600)
                        configuration.flowInterval = .seconds(3_600)
                        configuration.retryBase = .milliseconds(1)
                    })
                try await ingest.running([service]) {
                    var rounds = 0
                    var events = 0
                    func round(_ cut: TestProxy.MessageCut?) async throws {
                        let batch = sort.events(rounds)
                        proxied.proxy.cut(cut)
                        try await ingest.publish(batch, at: CountedSort.time(of: rounds), key: "k")
                        rounds += 1
                        events += batch.count
                        try await eventually("round \(rounds) is applied", every: .milliseconds(3)) {
                            try await ingest.applied() >= events
                        }
                        // The COMMIT's answer may still be under way. Waiting for it keeps a later cut from affecting
                        // the next round.
                        try await eventually("round \(rounds) is answered", every: .milliseconds(3)) {
                            proxied.proxy.isQuiet
                        }
                        let effect = try await ingest.store.integer(sort.effect) - before
                        try #require(
                            effect == rounds * sort.perRound,
                            "\(cut?.description ?? "no cut"): \(effect) instead of \(rounds * sort.perRound)")
                    }
                    try await round(nil)
                    for makeCut in Self.cuts {
                        var number = 1
                        while true {
                            try await round(makeCut(number))
                            if proxied.proxy.isCutToCome { break }
                            number += 1
                        }
                        proxied.proxy.cut(nil)
                        // The positions and the events, three messages each, and the sync.
                        #expect(number > 7, "\(makeCut(number)) was never reached")
                    }
                    #expect(try await ingest.applied() == events)
                    #expect(
                        service.metrics.ingestFenced.total() == 0, "no other process has taken the partition")
                }
            }
        }
    }
}
