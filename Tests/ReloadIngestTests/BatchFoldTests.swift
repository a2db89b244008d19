// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Batches are folded in memory")
struct BatchFoldTests {
    @Test("Events for one target are folded into one row that counts them")
    func targeted() throws {
        var fold = BatchFold(directory: .sample)
        for offset in 0..<5 { fold.add(.push(user: "u1", kinds: ["Purchases"], offset: offset)) }
        fold.add(.push(user: "u2", kinds: ["Purchases"], offset: 5))
        #expect(fold.markCount == 2)
        let mark = try #require(fold.marks.first { $0.audienceID == "u1" })
        #expect(mark.events == 5)
        #expect(mark.kindID == SampleKind.purchases)
        #expect(mark.cause.offset == 4)
        #expect(mark.urgency == .budgeted)
        #expect(mark.lane == .push)
        #expect(fold.accepted == 6)
    }

    @Test("Folded requests take the most urgent lane and the most generous budget rule")
    func reasons() throws {
        var fold = BatchFold(directory: .sample)
        fold.add(.push(user: "u1", kinds: ["Purchases"], offset: 0))
        fold.add(.appChange(user: "u1", kinds: ["Purchases"], reason: .foreground, offset: 1))
        fold.add(.appChange(user: "u1", kinds: ["Purchases"], reason: .background, offset: 2))
        let mark = try #require(fold.marks.first)
        #expect(fold.markCount == 1)
        #expect(mark.events == 3)
        #expect(mark.urgency == .free)
        #expect(mark.lane == .interactive)
        #expect(mark.cause.offset == 2)
    }

    @Test("An operator's reload is folded like any other, as free and interactive; for everyone it is a bump")
    func operators() throws {
        var fold = BatchFold(directory: .sample)
        for (offset, audience) in [Audience.user("u1"), .everyone].enumerated() {
            let request = ReloadRequest(
                app: SampleKind.appName, audience: audience, kinds: .kinds(["Purchases"]), reason: .operator)
            fold.add(BatchEvent(record: offset, position: .at(offset), time: nil, event: .reload(request)))
        }
        let mark = try #require(fold.marks.first)
        #expect(mark.urgency == .forced && mark.lane == .interactive)
        #expect(fold.bumps.map(\.urgency) == [.forced])
        #expect(fold.accepted == 2)
    }

    @Test("All kinds, one kind and a match are separate targets")
    func scopes() throws {
        var fold = BatchFold(directory: .sample)
        let acme = try WidgetConfiguration(json: Array(#"{"card":"acme"}"#.utf8))
        fold.add(.push(user: "u1", kinds: [], offset: 0))
        fold.add(.push(user: "u1", kinds: ["Purchases", "DueDate"], offset: 1))
        fold.add(.push(user: "u1", kinds: ["Purchases"], matching: acme, offset: 2))
        #expect(fold.markCount == 4)
        #expect(Set(fold.marks.map(\.kindID)) == [nil, SampleKind.purchases, SampleKind.dueDate])
        #expect(fold.marks.compactMap(\.matching) == [#"{"card":"acme"}"#])
    }

    @Test("A fold lists the kinds of its urgent requests; a request for all kinds lists those that are not retired")
    func urgentKinds() {
        var fold = BatchFold(directory: .sample)
        fold.add(.everyone(kinds: [], offset: 0))
        #expect(fold.urgentKinds.isEmpty)
        fold.add(.push(user: "u1", kinds: ["Purchases"], offset: 1))
        #expect(fold.urgentKinds == [SampleKind.purchases])
        fold.add(.push(user: "u1", kinds: [], offset: 2))
        #expect(
            fold.urgentKinds
                == [SampleKind.purchases, SampleKind.dueDate, SampleKind.weather, SampleKind.configured])
    }

    @Test("Marks of all audiences and bumps keep the order of the log")
    func order() {
        var fold = BatchFold(directory: .sample)
        for (offset, audience) in [Audience.widget("w"), .user("u"), .device("d"), .user("v")].enumerated() {
            let request = ReloadRequest(
                app: SampleKind.appName, audience: audience, kinds: .kinds(["Purchases"]), reason: .push)
            fold.add(BatchEvent(record: offset, position: .at(offset), time: nil, event: .reload(request)))
        }
        fold.add(.push(user: "u", kinds: ["Purchases"], offset: 4))
        #expect(fold.marks.map(\.audienceID) == ["w", "d", "v", "u"])
        #expect(fold.marks.map(\.audience) == [.widget, .device, .user, .user])
        fold.add(.everyone(kinds: ["DueDate"], offset: 5))
        fold.add(.everyone(kinds: [], offset: 6))
        fold.add(.everyone(kinds: ["DueDate"], offset: 7))
        #expect(fold.bumps.map(\.kindID) == [nil, SampleKind.dueDate])
        #expect(fold.bumps.map(\.events) == [1, 2])
    }

    @Test("IDs that Swift considers equal but PostgreSQL does not are separate targets")
    func canonicalEquivalence() {
        var fold = BatchFold(directory: .sample)
        fold.add(.push(user: "caf\u{E9}", kinds: ["Purchases"], offset: 0))
        fold.add(.push(user: "cafe\u{301}", kinds: ["Purchases"], offset: 1))
        #expect(fold.markCount == 2)
    }

    @Test("A reload of everyone bumps the generation of all of the app's kinds, or of each named kind")
    func everyone() throws {
        var fold = BatchFold(directory: .sample)
        fold.add(.everyone(kinds: [], offset: 0))
        fold.add(.everyone(kinds: [], offset: 1))
        fold.add(.everyone(kinds: ["Purchases", "DueDate"], offset: 2))
        #expect(fold.markCount == 0)
        let events = Dictionary(uniqueKeysWithValues: fold.bumps.map { ($0.kindID, $0.events) })
        #expect(events == [nil: 2, SampleKind.purchases: 1, SampleKind.dueDate: 1])
        #expect(fold.sweeps.isEmpty)
    }

    @Test("A reload of everyone with a match is a durable sweep; equal ones are one sweep")
    func everyoneMatching() throws {
        var fold = BatchFold(directory: .sample)
        let acme = try WidgetConfiguration(json: Array(#"{"card":"acme"}"#.utf8))
        fold.add(.everyone(kinds: ["Purchases"], matching: acme, offset: 0))
        fold.add(.everyone(kinds: ["Purchases"], matching: acme, offset: 1))
        let sweep = try #require(fold.sweeps.first)
        #expect(fold.sweeps.count == 1)
        #expect(sweep.events == 2)
        #expect(sweep.cause.offset == 1)
        #expect(fold.bumps.isEmpty)
    }

    @Test("Views stay in order; a view that is not later than the previous one of its widget does not count")
    func views() throws {
        var fold = BatchFold(directory: .sample)
        for (offset, second) in [(0, 30), (1, 90), (2, 60), (3, 90), (4, 91)] {
            fold.add(
                BatchEvent(
                    record: offset, position: .at(offset), time: Timestamp(microseconds: Int64(second) * 1_000_000),
                    event: .viewed(app: SampleKind.appName, widget: "w1")))
        }
        #expect(fold.views.map(\.time.microseconds) == [30_000_000, 90_000_000, 91_000_000])
        #expect(fold.accepted == 5)
    }

    @Test(
        "Events with an unknown app or kind are rejected whole, with the reason",
        arguments: [
            ("com.example.unknown", ["Purchases"], "unknownApp", "/app"),
            (SampleKind.appName, ["Nothing"], "unknownKind", "/kinds"),
            (SampleKind.appName, ["Purchases", "Nothing"], "unknownKind", "/kinds"),
            (SampleKind.appName, ["Retired"], "unknownKind", "/kinds"),
        ])
    func unknown(app: String, kinds: [String], code: String, pointer: String) throws {
        var fold = BatchFold(directory: .sample)
        fold.add(.push(app: app, user: "u1", kinds: kinds, offset: 7))
        let rejected = try #require(fold.rejected.first)
        #expect(rejected.code == code)
        #expect(rejected.record == 7)
        #expect(rejected.app == app)
        #expect(rejected.message.hasPrefix(pointer))
        #expect(fold.unknownNames.count == 1)
        #expect(fold.markCount == 0)
        #expect(fold.accepted == 0)
    }

    @Test("A family that the kind does not support is rejected without reading the kinds again")
    func family() throws {
        var fold = BatchFold(directory: .sample)
        fold.add(
            BatchEvent(
                record: 0, position: .at(0), time: Timestamp(microseconds: 0),
                event: .placed(.sample("w1", kind: "DueDate", family: .accessoryInline))))
        let rejected = try #require(fold.rejected.first)
        #expect(rejected.code == "invalidValue")
        #expect(rejected.message.contains("accessoryInline"))
        #expect(fold.unknownNames.isEmpty)
        #expect(fold.changes.isEmpty)
    }

    @Test("A lifecycle event without a time is rejected")
    func missingTime() throws {
        var fold = BatchFold(directory: .sample)
        fold.add(
            BatchEvent(
                record: 0, position: .at(0), time: nil, event: .removed(app: SampleKind.appName, widget: "w1")))
        #expect(fold.rejected.first?.code == "missingAttribute")
    }

    @Test("A significant time change reloads all of the device's widgets, free of budget")
    func significantTimeChange() throws {
        var fold = BatchFold(directory: .sample)
        let environment = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")
        for (offset, isSignificant) in [(0, false), (1, true)] {
            fold.add(
                BatchEvent(
                    record: offset, position: .at(offset), time: Timestamp(microseconds: 0),
                    event: .environmentChanged(
                        app: SampleKind.appName, device: "d1", environment: environment,
                        significantTimeChange: isSignificant)))
        }
        #expect(fold.changes.count == 2)
        let mark = try #require(fold.marks.first)
        #expect(mark.events == 1)
        #expect(mark.urgency == .free)
        #expect(mark.kindID == nil)
    }

    @Test("100,000 events for 1,000 targets are at most 1,000 input rows per batch")
    func folding() {
        for batch in 0..<25 {
            var fold = BatchFold(directory: .sample)
            for index in 0..<4000 {
                fold.add(.push(user: "u\((batch * 4000 + index) % 1000)", kinds: ["Purchases"], offset: index))
            }
            #expect(fold.markCount == 1000)
            #expect(fold.marks.map(\.events).reduce(0, +) == 4000)
        }
    }

    @Test("A fold ends when its rows exceed one transaction, and the next fold continues there")
    func limit() {
        let batch = KafkaBatch(
            (0..<100).map { index in
                let event = FreshetEvent.reload(
                    ReloadRequest(
                        app: SampleKind.appName, audience: .user("u\(index)"), kinds: .all, reason: .push)
                ).encode(
                    id: "\(index)", source: "s", time: nil)
                let message = KafkaMessage(
                    topic: IngestTopics().pushes, partition: Int32(index % 3), key: nil, value: event.value,
                    headers: event.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
                return (offset: Int64(index), message: message)
            })
        let prepared = PreparedBatch(batch, decoder: RecordDecoder(IngestTopics()))
        let (fold, count) = prepared.fold(prepared.items, .sample, limit: 30)
        #expect(count == 30 && fold.markCount == 30)
        let next = prepared.last(of: prepared.items[..<count]).mapValues { $0.offset + 1 }
        #expect(Set(next.values) == [28, 29, 30])
        #expect(prepared.due(prepared.items) { next[$0] } == Array(prepared.items[30...]))
        #expect(prepared.due(prepared.items) { _ in nil }.isEmpty)
    }
}
