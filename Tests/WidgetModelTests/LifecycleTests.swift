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
        let (record, outcomes) = WidgetLifecycle.reduce(
            nil,
            [
                .configured(try Self.configuration("early"), at: Self.at(0)),
                .placed(try Self.placement("a"), at: Self.at(1)),
                .configured(try Self.configuration("b"), at: Self.at(3)),
                .configured(try Self.configuration("late"), at: Self.at(2)),
                .environment(german, at: Self.at(4)),
                .environment(german, at: Self.at(5)),
                .removed("w", at: Self.at(6)),
                .configured(try Self.configuration("c"), at: Self.at(7)),
                .environment(german, at: Self.at(7)),
                .removed("w", at: Self.at(8)),
                .placed(try Self.placement("old"), at: Self.at(7)),
                .placed(try Self.placement("d"), at: Self.at(9)),
                .placed(try Self.placement("d"), at: Self.at(10)),
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
            guard case .changed(let next) = WidgetLifecycle.apply(.placed(move, at: Self.at(2)), to: record) else {
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
        let sets: [[WidgetChange]] = [
            [
                .placed(try Self.placement("a"), at: Self.at(1)),
                .configured(try Self.configuration("b"), at: Self.at(2)),
                .environment(environments[0], at: Self.at(3)), .removed("w", at: Self.at(4)),
                .placed(try Self.placement("c"), at: Self.at(5)),
            ],
            [
                .placed(try Self.placement("a"), at: Self.at(1)),
                .configured(try Self.configuration("b"), at: Self.at(1)),
                .removed("w", at: Self.at(1)), .placed(try Self.placement("c"), at: Self.at(1)),
                .environment(environments[1], at: Self.at(2)),
            ],
            [
                .placed(try Self.placement("a"), at: Self.at(3)), .removed("w", at: Self.at(2)),
                .removed("w", at: Self.at(4)),
                .configured(try Self.configuration("b"), at: Self.at(5)),
                .configured(try Self.configuration("c"), at: Self.at(3)),
            ],
        ]
        var count = 0
        for changes in sets {
            for order in Self.permutations(of: changes) {
                count += 1
                let (record, outcomes) = WidgetLifecycle.reduce(nil, order)
                #expect(record == Self.expected(order))
                // The result does not depend on how the log is split into batches.
                for cut in 0...order.count {
                    let first = WidgetLifecycle.reduce(nil, order[..<cut])
                    let second = WidgetLifecycle.reduce(first.record, order[cut...])
                    #expect(second.record == record)
                    #expect(first.outcomes + second.outcomes == outcomes)
                }
                // Time never goes back, and a repeated change is at most confirmed.
                let times = outcomes.compactMap { $0.record?.changedAt }
                #expect(times == times.sorted())
                if let last = order.last, let record, case .placed = last, last.at == record.changedAt {
                    #expect(WidgetLifecycle.apply(last, to: record) == .confirmed(record))
                }
            }
        }
        #expect(count == 360)
    }

    private static func expected(_ changes: [WidgetChange]) -> WidgetRecord? {
        var latest = Timestamp.distantPast
        var record: WidgetRecord?
        for change in changes where change.at >= latest {
            let isShown = record.map { !$0.removed } ?? false
            switch change {
            case .placed(let placement, let time):
                record = WidgetRecord(placement, changedAt: time)
            case .configured(let configuration, _):
                guard isShown else { continue }
                record?.configuration = configuration
            case .environment(let environment, _):
                guard isShown else { continue }
                record?.environment = environment
            case .removed(let widget, let time):
                record = record ?? WidgetRecord(unplaced: widget, user: "", changedAt: time)
                record?.removed = true
            }
            record?.changedAt = change.at
            latest = change.at
        }
        return record
    }

    @Test("A removal before the placement is remembered, so an older placement has no effect")
    func removedFirst() throws {
        let tombstone = try #require(WidgetLifecycle.apply(.removed("w", at: Self.at(5)), to: nil).record)
        #expect(tombstone.isUnplaced && tombstone.removed)
        let placement = try Self.placement("a")
        #expect(WidgetLifecycle.apply(.placed(placement, at: Self.at(4)), to: tombstone) == .ignored(.older))
        #expect(
            WidgetLifecycle.apply(.placed(placement, at: Self.at(5)), to: tombstone)
                == .placed(WidgetRecord(placement, changedAt: Self.at(5))))
        let configured = WidgetChange.configured(try Self.configuration("b"), at: Self.at(9))
        #expect(WidgetLifecycle.apply(configured, to: tombstone) == .ignored(.unknown))
        #expect(WidgetLifecycle.apply(.removed("w", at: Self.at(3)), to: tombstone) == .ignored(.older))
    }

    @Test("A change on behalf of one user affects neither widgets nor tombstones of another user")
    func limited() throws {
        let placement = try Self.placement("a")
        let record = WidgetRecord(placement, changedAt: Self.at(1))
        var foreign = placement
        foreign.user = "u2"
        for change: WidgetChange in [
            .placed(foreign, at: Self.at(9)), .removed("w", at: Self.at(9)),
            .configured(try Self.configuration("b"), at: Self.at(9)),
        ] {
            #expect(WidgetLifecycle.apply(change, to: record, limitedTo: "u2") == .ignored(.foreign))
            #expect(WidgetLifecycle.apply(change, to: record, limitedTo: "u").record != nil)
        }
        let removal = WidgetChange.removed("w", at: Self.at(5))
        let tombstone = WidgetLifecycle.apply(removal, to: nil, limitedTo: "u2").record
        let older = WidgetChange.placed(placement, at: Self.at(4))
        #expect(WidgetLifecycle.apply(older, to: tombstone).record == WidgetRecord(placement, changedAt: Self.at(4)))
        #expect(WidgetLifecycle.apply(.placed(foreign, at: Self.at(4)), to: tombstone) == .ignored(.older))
        // A removal for all users outlasts that of one user, in either order.
        let all = WidgetLifecycle.apply(removal, to: tombstone).record
        #expect(WidgetLifecycle.apply(older, to: all) == .ignored(.older))
        for earlier in [all, WidgetLifecycle.apply(removal, to: nil, limitedTo: "u").record] {
            let later = WidgetLifecycle.apply(.removed("w", at: Self.at(9)), to: earlier, limitedTo: "u2")
            #expect(later == .ignored(.foreign), "the earlier tombstone stays")
        }
    }

    private static func permutations(of changes: [WidgetChange]) -> [[WidgetChange]] {
        guard let first = changes.first else { return [[]] }
        return permutations(of: Array(changes.dropFirst())).flatMap { rest in
            (0...rest.count).map { Array(rest[..<$0]) + [first] + Array(rest[$0...]) }
        }
    }
}

extension WidgetLifecycle {
    /// Applies changes in log order and returns the widget and the outcome of each change.
    fileprivate static func reduce(
        _ record: WidgetRecord?, _ changes: some Sequence<WidgetChange>
    ) -> (record: WidgetRecord?, outcomes: [WidgetOutcome]) {
        var record = record
        let outcomes = changes.map { change in
            let outcome = apply(change, to: record)
            record = outcome.record ?? record
            return outcome
        }
        return (record, outcomes)
    }
}
