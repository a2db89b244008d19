internal import Foundation
import JSON

/// Stored state of a user of an app beside the widgets: the arrangement of stacks, relevant shortcuts, and habits.
package struct PersonRecord: Hashable, Sendable {
    /// Most stacks of a person, those that were removed included.
    package static let maximumStacks = 32
    /// Most sets of shortcuts: one for all devices, and others for one device each.
    package static let maximumSets = 9

    /// A stack as a device reported it.
    package struct StackState: Hashable, Sendable {
        package var arrangement: StackArrangement
        package var changedAt: Timestamp
        /// Last turn by hand.
        package var turn: Stack.Turn?
    }

    /// Shortcuts that an app declared relevant.
    package struct ShortcutSet: Hashable, Sendable {
        /// Nil: of all devices.
        package var device: String?
        package var shortcuts: [RelevantShortcut]
        package var changedAt: Timestamp
    }

    package var habits = Habits()
    package var stacks: [StackState] = []
    package var sets: [ShortcutSet] = []

    package init() {}

    /// Effect of a change.
    package enum Effect: Hashable, Sendable {
        /// A later change of the same thing was applied, or the thing is not known.
        case ignored
        /// The time of the change is recorded; schedules stay as they are.
        case confirmed
        case changed
    }

    /// Applies a change, unless a later one of the same thing was applied.
    ///
    /// - Parameter isOrderedByArrival: whether it counts as not older than what was applied before.
    package mutating func apply(
        _ change: PersonChange, at time: Timestamp, isOrderedByArrival: Bool = false
    ) -> Effect {
        switch change {
        case .stack(let arrangement):
            return arrange(arrangement, at: time, isOrderedByArrival)
        case .turned(let device, let stack, let widget):
            guard let index = index(device, stack) else { return .ignored }
            let last = stacks[index].turn?.at ?? .distantPast
            let isKnown = stacks[index].arrangement.widgets.contains { Text.equal($0, widget) }
            guard isKnown || StackPlan.isSuggestion(widget: widget), isOrderedByArrival || time > last else {
                return .ignored
            }
            stacks[index].turn = Stack.Turn(widget: widget, at: max(time, last))
            return .changed
        case .shortcuts(let device, let shortcuts):
            return replace(shortcuts, device, at: time, isOrderedByArrival)
        }
    }

    /// Lets all times after `now` count as none, so that no time of a wrong clock precedes later changes.
    package mutating func forgetTimes(after now: Timestamp) {
        for index in stacks.indices {
            stacks[index].changedAt = stacks[index].changedAt.usable(at: now)
            if let turn = stacks[index].turn { stacks[index].turn?.at = turn.at.usable(at: now) }
        }
        for index in sets.indices { sets[index].changedAt = sets[index].changedAt.usable(at: now) }
    }

    private func index(_ device: String, _ stack: String) -> Int? {
        stacks.firstIndex { Text.equal($0.arrangement.device, device) && Text.equal($0.arrangement.name, stack) }
    }

    /// A stack without widgets is a removed one. It is kept, so that an older event does not bring it back.
    private mutating func arrange(_ new: StackArrangement, at time: Timestamp, _ isOrderedByArrival: Bool) -> Effect {
        let before = stacks.map(\.arrangement)
        var state = StackState(arrangement: new, changedAt: time)
        if let index = index(new.device, new.name) {
            let last = stacks[index].changedAt
            guard isOrderedByArrival || time >= last else { return .ignored }
            state.changedAt = max(time, last)
            state.turn = stacks[index].turn
            stacks.remove(at: index)
        }
        // A widget is in one stack at most: that of the later event.
        for index in stacks.indices {
            let other = stacks[index]
            if other.changedAt <= state.changedAt {
                stacks[index].arrangement.widgets.removeAll { id in new.widgets.contains { Text.equal($0, id) } }
            } else {
                state.arrangement.widgets.removeAll { id in
                    other.arrangement.widgets.contains { Text.equal($0, id) }
                }
            }
        }
        stacks.append(state)
        stacks.sort { ($0.arrangement.device, $0.arrangement.name) < ($1.arrangement.device, $1.arrangement.name) }
        while stacks.count > Self.maximumStacks { stacks.remove(at: oldestStack) }
        return stacks.map(\.arrangement) == before ? .confirmed : .changed
    }

    /// Takes a removed widget out of the stacks that were arranged before: placed again, it does not return to its
    /// place.
    package mutating func remove(widget: String, at time: Timestamp, isOrderedByArrival: Bool = false) -> Effect {
        var effect = Effect.ignored
        for index in stacks.indices where isOrderedByArrival || stacks[index].changedAt <= time {
            let count = stacks[index].arrangement.widgets.count
            stacks[index].arrangement.widgets.removeAll { Text.equal($0, widget) }
            if stacks[index].arrangement.widgets.count < count { effect = .changed }
        }
        return effect
    }

    /// The stack to forget first: a removed one, else that which changed the longest ago.
    private var oldestStack: Int {
        stacks.indices.min { left, right in
            let (left, right) = (stacks[left], stacks[right])
            let (isLeftGone, isRightGone) = (left.arrangement.widgets.isEmpty, right.arrangement.widgets.isEmpty)
            return isLeftGone != isRightGone ? isLeftGone : left.changedAt < right.changedAt
        } ?? 0
    }

    private mutating func replace(
        _ shortcuts: [RelevantShortcut], _ device: String?, at time: Timestamp, _ isOrderedByArrival: Bool
    ) -> Effect {
        let before = sets
        var set = ShortcutSet(device: device, shortcuts: shortcuts, changedAt: time)
        let index = sets.firstIndex { set in
            guard let own = set.device, let device else { return set.device == nil && device == nil }
            return Text.equal(own, device)
        }
        if let index {
            guard isOrderedByArrival || time >= sets[index].changedAt else { return .ignored }
            set.changedAt = max(time, sets[index].changedAt)
            sets[index] = set
        } else {
            sets.append(set)
        }
        if sets.count > Self.maximumSets {
            sets.indices.min { sets[$0].changedAt < sets[$1].changedAt }.map { _ = sets.remove(at: $0) }
        }
        return before.map(\.shortcuts) == sets.map(\.shortcuts) ? .confirmed : .changed
    }

    /// The shortcuts that are relevant on a device.
    package func shortcuts(on device: String) -> [RelevantShortcut] {
        sets.filter { $0.device.map { Text.equal($0, device) } ?? true }.flatMap(\.shortcuts)
    }
}

/// Order and switches of a stack, as a device reports them.
package struct StackArrangement: Hashable, Sendable {
    /// Most widgets of a stack.
    package static let maximumWidgets = 32

    package var device: String
    /// Unique on its device.
    package var name: String
    /// Ids from top to bottom as the person arranged them; none: the stack was removed.
    package var widgets: [String]
    package var smartRotate: Bool
    package var suggestions: Bool

    package init(device: String, name: String, widgets: [String], smartRotate: Bool = true, suggestions: Bool = true) {
        self.device = device
        self.name = name
        self.widgets = widgets
        self.smartRotate = smartRotate
        self.suggestions = suggestions
    }
}

/// A change of a person's stacks or relevant shortcuts, as a device or the app reports it.
package enum PersonChange: Hashable, Sendable {
    case stack(StackArrangement)
    /// The person turned the stack by hand to a widget.
    case turned(device: String, stack: String, widget: String)
    /// The whole set of an app's shortcuts, for one device or all; withdraws the earlier one.
    case shortcuts(device: String?, [RelevantShortcut])
}

/// A view of content in an app, from which Freshet learns the person's habits.
package struct DonatedInteraction: Hashable, Sendable {
    package var kind: String
    /// Values of the kind's intent.
    package var configuration: WidgetConfiguration
    package var device: String?
    /// IANA name of the person's time zone; nil for that of the person's widgets.
    package var timeZone: String?

    package init(
        kind: String, configuration: WidgetConfiguration = .empty, device: String? = nil, timeZone: String? = nil
    ) {
        self.kind = kind
        self.configuration = configuration
        self.device = device
        self.timeZone = timeZone
    }
}

// MARK: - Stored form

extension PersonRecord {
    /// Stacks and shortcuts as they are stored; of the database's own, and of one version.
    private struct Stored: Codable {
        struct Turn: Codable {
            var widget: String
            var at: Int64
        }

        struct StackState: Codable {
            var device: String
            var name: String
            var widgets: [String]
            /// Nil: on.
            var smartRotate: Bool?
            var suggestions: Bool?
            var at: Int64
            var turn: Turn?
        }

        struct Shortcut: Codable {
            var kind: String
            var values: String?
            var role: String?
            /// Beginnings and ends in turn.
            var ranges: [Int64]?

            func shortcut(of app: String) -> RelevantShortcut {
                let times = (ranges ?? []).map { Timestamp(microseconds: $0) }
                return RelevantShortcut(
                    content: WidgetContent(
                        app: app, kind: kind,
                        configuration: values.map { WidgetConfiguration(storedCanonical: $0) } ?? .empty),
                    role: role ?? "",
                    ranges: stride(from: 0, to: times.count - 1, by: 2).map {
                        times[$0]..<max(times[$0], times[$0 + 1])
                    })
            }
        }

        struct ShortcutSet: Codable {
            var device: String?
            var at: Int64
            var shortcuts: [Shortcut]
        }

        var stacks: [StackState] = []
        var sets: [ShortcutSet] = []
    }

    /// Stacks and shortcuts as JSON.
    package var storedArrangement: String {
        var stored = Stored()
        stored.stacks = stacks.map { state in
            Stored.StackState(
                device: state.arrangement.device, name: state.arrangement.name, widgets: state.arrangement.widgets,
                smartRotate: state.arrangement.smartRotate ? nil : false,
                suggestions: state.arrangement.suggestions ? nil : false, at: state.changedAt.microseconds,
                turn: state.turn.map { Stored.Turn(widget: $0.widget, at: $0.at.microseconds) })
        }
        stored.sets = sets.map { set in
            Stored.ShortcutSet(
                device: set.device, at: set.changedAt.microseconds,
                shortcuts: set.shortcuts.map { shortcut in
                    let ranges = shortcut.ranges.flatMap { [$0.lowerBound.microseconds, $0.upperBound.microseconds] }
                    let values = shortcut.content.configuration
                    return Stored.Shortcut(
                        kind: shortcut.content.kind, values: values == .empty ? nil : values.canonical,
                        role: shortcut.role.isEmpty ? nil : shortcut.role, ranges: ranges.isEmpty ? nil : ranges)
                })
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Strings and integers only: there is nothing that cannot be encoded.
        guard let data = try? encoder.encode(stored) else { return "{}" }
        return String(decoding: data, as: UTF8.self)
    }

    /// - Parameters:
    ///   - habits: nil: nothing was learned yet.
    ///   - arrangement: nil: there are neither stacks nor shortcuts.
    /// - Returns: nil unless both are stored forms.
    package init?(app: String, habits: [UInt8]?, arrangement: String?) {
        if let habits {
            guard let habits = Habits(encoded: habits) else { return nil }
            self.habits = habits
        }
        guard let arrangement else { return }
        guard let stored = try? JSONDecoder().decode(Stored.self, from: Data(arrangement.utf8)) else { return nil }
        stacks = stored.stacks.map { state in
            StackState(
                arrangement: StackArrangement(
                    device: state.device, name: state.name, widgets: state.widgets,
                    smartRotate: state.smartRotate ?? true, suggestions: state.suggestions ?? true),
                changedAt: Timestamp(microseconds: state.at),
                turn: state.turn.map { Stack.Turn(widget: $0.widget, at: Timestamp(microseconds: $0.at)) })
        }
        sets = stored.sets.map { set in
            ShortcutSet(
                device: set.device, shortcuts: set.shortcuts.map { $0.shortcut(of: app) },
                changedAt: Timestamp(microseconds: set.at))
        }
    }
}
