// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Lifecycle events of a batch are folded onto stored widgets")
struct LifecycleFoldTests {
    private func fold(
        _ stored: [StoredWidget], _ changes: [(FreshetEvent.Change, Timestamp)]
    ) throws -> (writes: LifecycleWrites, rejected: [RejectedEvent]) {
        var fold = try LifecycleFold(stored: stored, directory: .sample, now: .distantFuture)
        for (offset, (change, time)) in changes.enumerated() {
            fold.apply(FoldedChange(change, at: time, record: offset))
        }
        return (try fold.writes(), fold.rejected)
    }

    private func at(_ second: Int64) -> Timestamp { Timestamp(microseconds: second * 1_000_000) }

    @Test("A placement inserts a widget and a timeline with its kind's identity")
    func placed() throws {
        let placement = WidgetPlacement.sample("w1", user: "u1")
        let (writes, rejected) = try fold([], [(.widget(.placed(placement)), at(1))])
        #expect(rejected.isEmpty)
        let write = try #require(writes.inserts.first)
        #expect(writes.updates.isEmpty)
        #expect(write.timeline == writes.placements.first?.id && write.write.timelineID == nil)
        #expect(writes.placements.first?.lane == .interactive)
        #expect(writes.placements.first?.identity.user == "u1")
        #expect(writes.departures.isEmpty)
    }

    @Test("A thousand widgets of a shared kind with ten configurations share ten timelines")
    func shared() throws {
        let changes = try (0..<1000).map { index in
            let configuration = try WidgetConfiguration(json: Array(#"{"city":"\#(index % 10)"}"#.utf8))
            let placement = WidgetPlacement.sample(
                "w\(index)", user: "u\(index)", kind: "Weather", configuration: configuration)
            return (FreshetEvent.Change.widget(.placed(placement)), at(1))
        }
        let (writes, _) = try fold([], changes)
        #expect(writes.inserts.count == 1000)
        #expect(writes.placements.count == 10)
    }

    @Test("A new configuration moves the widget from the old timeline to a new one")
    func configured() throws {
        let stored = StoredWidget.sample("w1", changedAt: at(1))
        let configuration = try WidgetConfiguration(json: Array(#"{"card":"globex"}"#.utf8))
        let (writes, _) = try fold([stored], [(.widget(.configured(widget: "w1", configuration)), at(2))])
        #expect(writes.inserts.isEmpty)
        #expect(writes.updates.first?.timeline != stored.timeline?.id)
        #expect(writes.placements.map(\.id) == writes.updates.compactMap(\.timeline))
        #expect(writes.departures == [stored.timeline?.row])
    }

    @Test(
        "DESIGN.md, D: a configuration that the intent does not allow is rejected with a pointer to the value",
        arguments: Configurations.refused)
    func refusedConfiguration(text: String, pointer: String) throws {
        let stored = StoredWidget.sample("w1", kindID: SampleKind.configured, changedAt: at(1))
        let configuration = try WidgetConfiguration(json: Array(text.utf8))
        let (writes, rejected) = try fold([stored], [(.widget(.configured(widget: "w1", configuration)), at(2))])
        #expect(rejected.map(\.code) == ["invalidValue"] && rejected.map(\.pointer) == [pointer])
        #expect(writes.updates.isEmpty && writes.placements.isEmpty)
        let placement = WidgetPlacement.sample("w2", kind: "Configured", configuration: configuration)
        let placed = try fold([], [(.widget(.placed(placement)), at(1))])
        #expect(placed.rejected.map(\.code) == ["invalidValue"] && placed.rejected.map(\.pointer) == [pointer])
        #expect(placed.writes.inserts.isEmpty && placed.writes.placements.isEmpty)
    }

    @Test("DESIGN.md, D: a value that the widget has already and that does not fit any more does not block a change")
    func misfit() throws {
        let stored = StoredWidget.sample(
            "w1", kindID: SampleKind.configured, configuration: #"{"count":6}"#, changedAt: at(1))
        func change(_ text: String) throws -> (writes: LifecycleWrites, rejected: [RejectedEvent]) {
            let configuration = try WidgetConfiguration(json: Array(text.utf8))
            return try fold([stored], [(.widget(.configured(widget: "w1", configuration)), at(2))])
        }
        let (writes, rejected) = try change(#"{"count": 6, "category": "food"}"#)
        #expect(rejected.isEmpty && writes.updates.first?.write.misfits == 1)
        #expect(try change(#"{"count": 7, "category": "food"}"#).rejected.map(\.pointer) == ["/configuration/count"])
    }

    @Test("D: a placement that is sent again is not blocked by a value that the widget has already")
    func placedAgain() throws {
        func place(_ configuration: JSONValue, _ stored: StoredWidget) throws -> [String?] {
            let placement = WidgetPlacement(
                app: SampleKind.appName, widget: "w1", user: "u1", device: "d1", kind: "Configured",
                family: .systemSmall, configuration: try WidgetConfiguration(configuration),
                environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"))
            return try fold([stored], [(.widget(.placed(placement)), at(2))]).rejected.map(\.pointer)
        }
        func stored(kind: Int32 = SampleKind.configured, isRemoved: Bool = false) -> StoredWidget {
            .sample(
                "w1", kindID: kind, isRemoved: isRemoved, configuration: #"{"count":6}"#, changedAt: at(1))
        }
        #expect(try place(["count": 6, "category": "food"], stored()).isEmpty)
        #expect(try place(["count": 7], stored()) == ["/configuration/count"])
        // The values of another kind or of a removed widget say nothing about a new one.
        #expect(try place(["count": 6], stored(kind: SampleKind.purchases)) == ["/configuration/count"])
        #expect(try place(["count": 6], stored(isRemoved: true)) == ["/configuration/count"])
    }

    @Test("DESIGN.md, D: display strings, hidden values and omitted defaults are kept, but create no other timeline")
    func ownConfiguration() throws {
        var writes: [LifecycleWrites] = []
        for text in [
            #"{"card": {"identifier": "acme", "display": "Acme Card"}, "shops": ["a"]}"#,
            #"{"card": "acme", "category": "all"}"#,
        ] {
            let configuration = try WidgetConfiguration(json: Array(text.utf8))
            let placement = WidgetPlacement.sample("w1", kind: "Configured", configuration: configuration)
            writes.append(try fold([], [(.widget(.placed(placement)), at(1))]).writes)
        }
        #expect(writes[0].placements.map(\.id) == writes[1].placements.map(\.id))
        #expect(writes[0].placements.first?.identity.configuration.canonical == #"{"card":"acme","category":"all"}"#)
        #expect(
            writes[0].inserts.first?.write.configuration
                == #"{"card":{"display":"Acme Card","identifier":"acme"},"shops":["a"]}"#)
        #expect(writes[1].inserts.first?.write.configuration == nil)
    }

    @Test("An older event neither overrides a newer one nor writes anything")
    func older() throws {
        let stored = StoredWidget.sample("w1", changedAt: at(10))
        let (writes, rejected) = try fold([stored], [(.widget(.removed(widget: "w1")), at(9))])
        #expect(writes.updates.isEmpty && writes.inserts.isEmpty && writes.departures.isEmpty)
        #expect(rejected.isEmpty)
    }

    @Test("A removal leaves a tombstone and the timeline; an older placement does not restore the widget")
    func removed() throws {
        let stored = StoredWidget.sample("w1", changedAt: at(1))
        let (writes, _) = try fold(
            [stored],
            [
                (.widget(.removed(widget: "w1")), at(5)),
                (.widget(.placed(.sample("w1"))), at(4)),
            ])
        #expect(writes.updates.count == 1)
        #expect(writes.updates.first?.timeline == nil && writes.updates.first?.write.timelineID == nil)
        #expect(writes.updates.first?.write.changedAt == at(5))
        #expect(writes.departures == [stored.timeline?.row])
        #expect(writes.placements.isEmpty)
    }

    @Test(
        "Removed and placed again, in one batch or two, a widget wakes its timeline, which learns its views anew")
    func replaced() throws {
        let stored = StoredWidget.sample("w1", changedAt: at(1))
        let (writes, _) = try fold(
            [stored], [(.widget(.removed(widget: "w1")), at(5)), (.widget(.placed(.sample("w1"))), at(6))])
        #expect(writes.updates.map(\.write.isBack) == [true])
        #expect(writes.updates.first?.write.timelineID == stored.timeline?.row)
        #expect(writes.placements.map(\.id) == [stored.timeline?.id] && writes.departures.isEmpty)

        // Placing the widget again unchanged resets no views, but wakes a timeline that sleeps.
        let (again, _) = try fold([stored], [(.widget(.placed(.sample("w1"))), at(6))])
        #expect(again.updates.map(\.write.isBack) == [false] && again.placements.count == 1)
    }

    @Test("A widget placed and removed in one batch is stored as a tombstone")
    func placedAndRemoved() throws {
        let (writes, _) = try fold(
            [], [(.widget(.placed(.sample("w1"))), at(1)), (.widget(.removed(widget: "w1")), at(2))])
        #expect(writes.inserts.count == 1)
        #expect(writes.inserts.first?.timeline == nil && writes.inserts.first?.write.timelineID == nil)
        #expect(writes.placements.isEmpty && writes.departures.isEmpty)
    }

    @Test("A device's new environment applies to its widgets, including one placed earlier in the batch")
    func environment() throws {
        let here = StoredWidget.sample("w1", device: "d1", changedAt: at(1))
        let leaving = StoredWidget.sample("w2", device: "d1", changedAt: at(1))
        let environment = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")
        let (writes, _) = try fold(
            [here, leaving],
            [
                (.widget(.placed(.sample("w3", device: "d1"))), at(2)),
                (.widget(.placed(.sample("w2", device: "d9"))), at(2)),
                (.device(.environment(device: "d1", environment, isSignificant: false)), at(3)),
            ])
        let environments = Dictionary(
            (writes.inserts + writes.updates).map { ($0.write.id, $0.write.environment) }, uniquingKeysWith: { $1 })
        #expect(environments["w1"] == environment)
        #expect(environments["w3"] == environment)
        #expect(environments["w2"] != environment)
    }

    @Test("Configuring a widget that is unknown or removed is ignored without a dead letter")
    func unknownWidget() throws {
        let (nothing, rejected) = try fold([], [(.widget(.configured(widget: "w9", .empty)), at(1))])
        #expect(rejected.isEmpty && nothing.inserts.isEmpty)
        let removed = StoredWidget.sample("w1", isRemoved: true, changedAt: at(1))
        let (writes, none) = try fold([removed], [(.widget(.configured(widget: "w1", .empty)), at(2))])
        #expect(none.isEmpty)
        #expect(writes.updates.isEmpty)
    }

    @Test("A widget of a kind missing in the directory requires a fresh directory")
    func directoryBehind() {
        let stored = StoredWidget.sample("w1", kindID: 999, changedAt: at(1))
        #expect(throws: ApplyFailure.self) {
            _ = try LifecycleFold(stored: [stored], directory: .sample, now: .distantFuture)
        }
    }

    @Test("A widget of a retired kind rejects configurations, keeps its environment and can be removed")
    func retiredKind() throws {
        let stored = StoredWidget.sample("w1", kindID: SampleKind.retired, changedAt: at(1))
        let environment = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")
        let (writes, rejected) = try fold(
            [stored],
            [
                (.widget(.configured(widget: "w1", .empty)), at(2)),
                (.device(.environment(device: "d1", environment, isSignificant: false)), at(3)),
            ])
        #expect(rejected.map(\.code) == ["unknownKind"] && rejected[0].record == 0)
        #expect(writes.updates.isEmpty && writes.placements.isEmpty)

        let (removal, none) = try fold([stored], [(.widget(.removed(widget: "w1")), at(2))])
        #expect(none.isEmpty)
        #expect(removal.updates.map(\.write.timelineID) == [nil] && removal.departures == [stored.timeline?.row])

        var foreign = try LifecycleFold(stored: [stored], directory: .sample, now: .distantFuture)
        foreign.apply(
            FoldedChange(
                .widget(.configured(widget: "w1", .empty)), at: at(2), handling: EventHandling(user: "u2")))
        #expect(foreign.rejected.isEmpty && foreign.ignored.map(\.reason) == [.foreign], "its kind is not disclosed")

        let (other, _) = try fold(
            [stored],
            [
                (.widget(.placed(.sample("w1", kind: "DueDate"))), at(2)),
                (.widget(.configured(widget: "w1", .empty)), at(3)),
            ])
        #expect(other.updates.map(\.write.kindID) == [SampleKind.dueDate], "the new placement has a live kind")
    }
}
