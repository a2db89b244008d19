// SPDX-License-Identifier: Apache-2.0

import Randomness
import WidgetModel

/// An event in the log.
enum SimulatedEvent: Hashable, Sendable {
    /// The widget is placed, or configured to show another timeline.
    case place(widget: Int, identity: Int, changedAt: Int)
    case remove(widget: Int, changedAt: Int)
    case view(widget: Int)
    case reloadUser(Int, reason: ReloadReason)
    case reloadWidget(Int, reason: ReloadReason)
    /// A reload of everyone, for one kind or all, in constant time.
    case reloadKind(Int?, reason: ReloadReason)
}

/// An event as read by a process.
struct ReadEvent: Hashable, Sendable {
    let partition: Int
    let offset: Int
    let event: SimulatedEvent
    /// Epoch under which the event was read.
    let epoch: Int
}

/// Rules of the kinds, and variants of the implementation.
struct SimulatedWorld: Hashable, Sendable {
    static let identities = 4
    static let kinds = 2
    static let widgets = 5
    static let users = 2
    static let partitions = 2
    static let ingests = 2
    static let workers = 3
    static let lease = Duration.seconds(60)
    /// Time limit for the delivery of a message.
    static let longestPublish = Duration.seconds(20)
    static let start = Timestamp(microseconds: 1_592_820_000_000_000)

    let rules: [ReloadRules]
    /// Whether the clock advances between steps.
    let ticks: Bool

    init(_ random: inout SeededGenerator) {
        rules = (0..<Self.kinds).map { kind in
            // The budget shrinks at the end of the learning period.
            let daily = 1 + random.below(12)
            let most = daily + random.below(2) * 10
            return ReloadRules(
                minimumSpacing: .seconds([0, 5, 300][random.below(3)]), developerMode: random.chance(1, of: 8),
                budget: DailyBudget(minimum: daily, maximum: most),
                dormantAfter: .seconds([3_600, 14 * 86_400][random.below(2)]), isShared: kind == 1)
        }
        ticks = random.chance(2, of: 3)
    }

    static func kind(of identity: Int) -> Int { identity / 2 }
    static func user(of widget: Int) -> Int { widget % users }
    static func id(of identity: Int) -> TimelineID {
        TimelineID(high: UInt64(identity), low: UInt64(identity) &* 0x9E37_79B9_7F4A_7C15)
    }
}

/// A batch of events, folded as by ingest.
struct FoldedBatch {
    /// Latest state by widget.
    var widgets: [(widget: Int, identity: Int?, changedAt: Int)] = []
    var requests: [(widgets: [Int], reason: ReloadReason)] = []
    var views: [Int] = []
    var bumps: [(kind: Int, reason: ReloadReason)] = []

    init(_ events: [SimulatedEvent]) {
        for event in events {
            switch event {
            case .place(let widget, let identity, let time): change(widget, identity, time)
            case .remove(let widget, let time): change(widget, nil, time)
            case .view(let widget): views.append(widget)
            case .reloadUser(let user, let reason):
                let widgets = (0..<SimulatedWorld.widgets).filter { SimulatedWorld.user(of: $0) == user }
                requests.append((widgets, reason))
            case .reloadWidget(let widget, let reason): requests.append(([widget], reason))
            case .reloadKind(let kind, let reason):
                for kind in kind.map({ [$0] }) ?? Array(0..<SimulatedWorld.kinds) { bumps.append((kind, reason)) }
            }
        }
        widgets.sort { $0.widget < $1.widget }
        bumps.sort { $0.kind < $1.kind }
    }

    private mutating func change(_ widget: Int, _ identity: Int?, _ time: Int) {
        if let place = widgets.firstIndex(where: { $0.widget == widget }) {
            guard time >= widgets[place].changedAt else { return }
            widgets[place] = (widget, identity, time)
        } else {
            widgets.append((widget, identity, time))
        }
    }
}
