// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct LifecycleTests {
    private static func at(_ seconds: Int64) -> Timestamp { Timestamp(microseconds: seconds * 1_000_000) }

    private static func placement(_ value: String) throws -> WidgetPlacement {
        WidgetPlacement(
            app: "a", widget: "w", user: "u", device: "d", kind: "k", family: .systemSmall,
            configuration: try configuration(value), environment: try WidgetEnvironment(locale: "en", timeZone: "UTC"))
    }

    private static func configuration(_ value: String) throws -> WidgetConfiguration {
        try WidgetConfiguration(["value": .string(value)])
    }

    @Test func story() throws {
        let german = try WidgetEnvironment(locale: "de", timeZone: "UTC")
        let (record, outcomes) = WidgetRecord.reduce(
            nil,
            [
                DatedChange(.configured(widget: "w", try Self.configuration("early")), 0),
                DatedChange(.placed(try Self.placement("a")), 1),
                DatedChange(.configured(widget: "w", try Self.configuration("b")), 3),
                DatedChange(.configured(widget: "w", try Self.configuration("late")), 2),
                DatedChange(german, 4),
                DatedChange(german, 5),
                DatedChange(.removed(widget: "w"), 6),
                DatedChange(.configured(widget: "w", try Self.configuration("c")), 7),
                DatedChange(german, 7),
                DatedChange(.removed(widget: "w"), 8),
                DatedChange(.placed(try Self.placement("old")), 7),
                DatedChange(.placed(try Self.placement("d")), 9),
                DatedChange(.placed(try Self.placement("d")), 10),
            ])
        let names = outcomes.map { outcome in
            switch outcome {
            case .placed: "placed"
            case .changed: "changed"
            case .confirmed: "confirmed"
            case .removed: "removed"
            case .ignored(let reason): "ignored \(reason)"
            }
        }
        #expect(
            names == [
                "ignored unknown", "placed", "changed", "ignored older", "changed", "confirmed", "removed",
                "ignored removed", "ignored removed", "confirmed", "ignored older", "placed", "confirmed",
            ])
        #expect(record == WidgetRecord(try Self.placement("d"), changedAt: Self.at(10)))
        #expect(outcomes[4].record?.environment == german)
        #expect(outcomes[4].record?.configuration == (try Self.configuration("b")))
        #expect(outcomes[9].record?.changedAt == Self.at(8))
        #expect(outcomes[9].record?.removed == true)
    }

    @Test("A placement that is repeated with an unusable locale keeps the device's usable one")
    func repeatedPlacement() throws {
        var repeated = try Self.placement("a")
        repeated.environment = WidgetEnvironment(reportedLocale: "?", timeZone: "Europe/Berlin")
        let (record, _) = WidgetRecord.reduce(
            nil, [DatedChange(.placed(try Self.placement("a")), 1), DatedChange(.placed(repeated), 2)])
        #expect(record?.environment == WidgetEnvironment(storedLocale: "en", timeZone: "Europe/Berlin"))
        repeated.device = "other"
        let (moved, _) = WidgetRecord.reduce(
            nil, [DatedChange(.placed(try Self.placement("a")), 1), DatedChange(.placed(repeated), 2)])
        #expect(moved?.environment == WidgetEnvironment(storedLocale: "und", timeZone: "Europe/Berlin"))
    }

    @Test func placingAgainElsewhereIsAChange() throws {
        let base = try Self.placement("a")
        let record = WidgetRecord(base, changedAt: Self.at(1))
        var moves: [WidgetPlacement] = []
        for change in [
            { $0.user = "u2" }, { $0.device = "d2" }, { $0.kind = "k2" }, { $0.family = .systemLarge },
        ] as [(inout WidgetPlacement) -> Void] {
            var move = base
            change(&move)
            moves.append(move)
        }
        for move in moves {
            guard case .changed(let next) = WidgetRecord.apply(.placed(move), at: Self.at(2), to: record) else {
                Issue.record("\(move) is not a change")
                continue
            }
            #expect(next == WidgetRecord(move, changedAt: Self.at(2)))
        }
    }

    /// All orders of all sets of up to five changes, including equal times, compared with an independent formulation of
    /// the rule: effective changes are the running maxima of time once the widget is placed.
    @Test func everyPermutation() throws {
        let environments = try ["de", "fr"].map { try WidgetEnvironment(locale: $0, timeZone: "UTC") }
        let sets: [[DatedChange]] = [
            [
                DatedChange(.placed(try Self.placement("a")), 1),
                DatedChange(.configured(widget: "w", try Self.configuration("b")), 2),
                DatedChange(environments[0], 3), DatedChange(.removed(widget: "w"), 4),
                DatedChange(.placed(try Self.placement("c")), 5),
            ],
            [
                DatedChange(.placed(try Self.placement("a")), 1),
                DatedChange(.configured(widget: "w", try Self.configuration("b")), 1),
                DatedChange(.removed(widget: "w"), 1), DatedChange(.placed(try Self.placement("c")), 1),
                DatedChange(environments[1], 2),
            ],
            [
                DatedChange(.placed(try Self.placement("a")), 3), DatedChange(.removed(widget: "w"), 2),
                DatedChange(.removed(widget: "w"), 4),
                DatedChange(.configured(widget: "w", try Self.configuration("b")), 5),
                DatedChange(.configured(widget: "w", try Self.configuration("c")), 3),
            ],
        ]
        var count = 0
        for changes in sets {
            for order in Self.permutations(of: changes) {
                count += 1
                let (record, outcomes) = WidgetRecord.reduce(nil, order)
                #expect(record == Self.expected(order))
                // The result does not depend on how the log is split into batches.
                for cut in 0...order.count {
                    let first = WidgetRecord.reduce(nil, order[..<cut])
                    let second = WidgetRecord.reduce(first.record, order[cut...])
                    #expect(second.record == record)
                    #expect(first.outcomes + second.outcomes == outcomes)
                }
                // Time never goes back, and a repeated change is at most confirmed.
                let times = outcomes.compactMap { $0.record?.changedAt }
                #expect(times == times.sorted())
                if let last = order.last, let record, case .widget(.placed) = last.change, last.at == record.changedAt {
                    #expect(last.apply(to: record) == .confirmed(record))
                }
            }
        }
        #expect(count == 360)
    }

    private static func expected(_ changes: [DatedChange]) -> WidgetRecord? {
        var latest = Timestamp.distantPast
        var record: WidgetRecord?
        for change in changes where change.at >= latest {
            let isShown = record.map { !$0.removed } ?? false
            switch change.change {
            case .widget(.placed(let placement)):
                record = WidgetRecord(placement, changedAt: change.at)
            case .widget(.configured(_, let configuration)):
                guard isShown else { continue }
                record?.configuration = configuration
            case .environment(let environment):
                guard isShown else { continue }
                record?.environment = environment
            case .widget(.removed(let widget)):
                record = record ?? WidgetRecord(unplaced: widget, user: "", changedAt: change.at)
                record?.removed = true
            }
            record?.changedAt = change.at
            latest = change.at
        }
        return record
    }

    @Test("A removal before the placement is remembered, so an older placement has no effect")
    func removedFirst() throws {
        let tombstone = try #require(WidgetRecord.apply(.removed(widget: "w"), at: Self.at(5), to: nil).record)
        #expect(tombstone.isUnplaced && tombstone.removed)
        let placement = try Self.placement("a")
        #expect(WidgetRecord.apply(.placed(placement), at: Self.at(4), to: tombstone) == .ignored(.older))
        #expect(
            WidgetRecord.apply(.placed(placement), at: Self.at(5), to: tombstone)
                == .placed(WidgetRecord(placement, changedAt: Self.at(5))))
        let configured = WidgetChange.configured(widget: "w", try Self.configuration("b"))
        #expect(WidgetRecord.apply(configured, at: Self.at(9), to: tombstone) == .ignored(.unknown))
        #expect(WidgetRecord.apply(.removed(widget: "w"), at: Self.at(3), to: tombstone) == .ignored(.older))
    }

    @Test("A change on behalf of one user affects neither widgets nor tombstones of another user")
    func limited() throws {
        let placement = try Self.placement("a")
        let record = WidgetRecord(placement, changedAt: Self.at(1))
        var foreign = placement
        foreign.user = "u2"
        for change: WidgetChange in [
            .placed(foreign), .removed(widget: "w"), .configured(widget: "w", try Self.configuration("b")),
        ] {
            #expect(WidgetRecord.apply(change, at: Self.at(9), to: record, limitedTo: "u2") == .ignored(.foreign))
            #expect(WidgetRecord.apply(change, at: Self.at(9), to: record, limitedTo: "u").record != nil)
        }
        let removal = WidgetChange.removed(widget: "w")
        let tombstone = WidgetRecord.apply(removal, at: Self.at(5), to: nil, limitedTo: "u2").record
        let older = WidgetChange.placed(placement)
        #expect(
            WidgetRecord.apply(older, at: Self.at(4), to: tombstone).record
                == WidgetRecord(placement, changedAt: Self.at(4)))
        #expect(WidgetRecord.apply(.placed(foreign), at: Self.at(4), to: tombstone) == .ignored(.older))
        // A removal for all users outlasts that of one user, in either order.
        let all = WidgetRecord.apply(removal, at: Self.at(5), to: tombstone).record
        #expect(WidgetRecord.apply(older, at: Self.at(4), to: all) == .ignored(.older))
        for earlier in [all, WidgetRecord.apply(removal, at: Self.at(5), to: nil, limitedTo: "u").record] {
            let later = WidgetRecord.apply(.removed(widget: "w"), at: Self.at(9), to: earlier, limitedTo: "u2")
            #expect(later == .ignored(.foreign), "the earlier tombstone stays")
        }
    }

    private static func permutations(of changes: [DatedChange]) -> [[DatedChange]] {
        guard let first = changes.first else { return [[]] }
        return permutations(of: Array(changes.dropFirst())).flatMap { rest in
            (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
        }
    }
}

/// A change of a widget, or of its device, with its time.
private struct DatedChange {
    enum Change {
        case widget(WidgetChange)
        case environment(WidgetEnvironment)
    }

    let change: Change
    let at: Timestamp

    init(_ change: WidgetChange, _ second: Int64) {
        (self.change, at) = (.widget(change), Timestamp(microseconds: second * 1_000_000))
    }

    init(_ environment: WidgetEnvironment, _ second: Int64) {
        (change, at) = (.environment(environment), Timestamp(microseconds: second * 1_000_000))
    }

    func apply(to record: WidgetRecord?) -> WidgetOutcome {
        switch change {
        case .widget(let change): WidgetRecord.apply(change, at: at, to: record)
        case .environment(let environment): WidgetRecord.apply(environment, at: at, to: record)
        }
    }
}

extension WidgetRecord {
    /// Applies changes in log order and returns the widget and the outcome of each change.
    fileprivate static func reduce(
        _ record: WidgetRecord?, _ changes: some Sequence<DatedChange>
    ) -> (record: WidgetRecord?, outcomes: [WidgetOutcome]) {
        var record = record
        let outcomes = changes.map { change in
            let outcome = change.apply(to: record)
            record = outcome.record ?? record
            return outcome
        }
        return (record, outcomes)
    }
}
