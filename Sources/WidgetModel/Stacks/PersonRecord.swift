// SPDX-License-Identifier: Apache-2.0

import JSON

/// Stored state of a user of an app beside the widgets: the arrangement of stacks, relevant shortcuts, and habits with
/// the contents that they are about.
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
        /// While the last turn was to a suggestion: the widget of the last one before that was not.
        package var left: String?
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
    /// Contents with habits, in the order of their keys: ``habits`` knows only the keys.
    package var viewed: [HabitContent] = []

    package init() {}

    /// Effect of a change.
    package enum Effect: Hashable, Sendable {
        case ignored(WidgetIgnoredReason)
        /// The time of the change is recorded; schedules stay as they are.
        case confirmed
        case changed

        package var isIgnored: Bool { if case .ignored = self { true } else { false } }
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
            guard let index = index(device: device, stack: stack), !stacks[index].arrangement.widgets.isEmpty else {
                return .ignored(.unknownStack)
            }
            let isKnown = stacks[index].arrangement.widgets.contains { Text.equal($0, widget) }
            guard isKnown || StackPlan.isSuggestion(widget: widget) else { return .ignored(.notInStack) }
            let last = stacks[index].turn?.at ?? .distantPast
            guard isOrderedByArrival || time > last else { return .ignored(.older) }
            if isKnown {
                stacks[index].left = nil
            } else if let turn = stacks[index].turn, !StackPlan.isSuggestion(widget: turn.widget) {
                stacks[index].left = turn.widget
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

    private func index(device: String, stack: String) -> Int? {
        stacks.firstIndex { Text.equal($0.arrangement.device, device) && Text.equal($0.arrangement.name, stack) }
    }

    /// A stack without widgets is a removed one. It is kept, so that an older event does not bring it back.
    private mutating func arrange(_ new: StackArrangement, at time: Timestamp, _ isOrderedByArrival: Bool) -> Effect {
        let before = stacks.map(\.arrangement)
        var state = StackState(arrangement: new, changedAt: time)
        if let index = index(device: new.device, stack: new.name) {
            let last = stacks[index].changedAt
            guard isOrderedByArrival || time >= last else { return .ignored(.older) }
            state.changedAt = max(time, last)
            state.turn = stacks[index].turn
            state.left = stacks[index].left
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
        var effect = Effect.ignored(.unknown)
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
            guard isOrderedByArrival || time >= sets[index].changedAt else { return .ignored(.older) }
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
    /// Stacks, shortcuts and viewed contents as JSON.
    package var storedArrangement: String {
        var document: JSONObject = [
            "sets": .array(
                sets.map { set in
                    var object: JSONObject = ["at": .count(set.changedAt.microseconds)]
                    object["device"] = set.device.map { .string($0) }
                    object["shortcuts"] = .array(set.shortcuts.map(\.stored))
                    return .object(object)
                }),
            "stacks": .array(
                stacks.map { state in
                    let arrangement = state.arrangement
                    var object: JSONObject = [
                        "at": .count(state.changedAt.microseconds), "device": .string(arrangement.device),
                        "name": .string(arrangement.name),
                    ]
                    if !arrangement.smartRotate { object["smartRotate"] = false }
                    if !arrangement.suggestions { object["suggestions"] = false }
                    object["turn"] = state.turn.map {
                        ["at": .count($0.at.microseconds), "widget": .string($0.widget)]
                    }
                    object["left"] = state.left.map { .string($0) }
                    object["widgets"] = .texts(arrangement.widgets)
                    return .object(object)
                }),
        ]
        // Last, as the statement that clears habits expects.
        if !viewed.isEmpty { document["viewed"] = .array(viewed.map(\.stored)) }
        return String(decoding: JSONValue.object(document).encoded, as: UTF8.self)
    }

    /// - Parameters:
    ///   - habits: nil: nothing was learned yet.
    ///   - arrangement: nil: there are neither stacks nor shortcuts nor viewed contents.
    /// - Returns: nil unless both are stored forms.
    package init?(app: String, habits: [UInt8]?, arrangement: String?) {
        if let habits {
            guard let habits = Habits(encoded: habits) else { return nil }
            self.habits = habits
        }
        guard let arrangement else { return }
        // Times are whole numbers up to the ends of their range, which a double does not keep.
        guard let stored = try? JSONValue.parse(Array(arrangement.utf8), checksNumbers: false),
            let stacks = stored["stacks"]?.arrayValue, let sets = stored["sets"]?.arrayValue
        else { return nil }
        for value in stacks {
            guard let state = StackState(stored: value) else { return nil }
            self.stacks.append(state)
        }
        for value in sets {
            guard let at = value["at"]?.timestamp, let list = value["shortcuts"]?.arrayValue else { return nil }
            let shortcuts = list.compactMap { RelevantShortcut(stored: $0, app: app) }
            guard shortcuts.count == list.count else { return nil }
            self.sets.append(ShortcutSet(device: value["device"]?.stringValue, shortcuts: shortcuts, changedAt: at))
        }
        for value in stored["viewed"]?.arrayValue ?? [] {
            guard let content = HabitContent(stored: value) else { return nil }
            viewed.append(content)
        }
    }
}

extension PersonRecord.StackState {
    fileprivate init?(stored value: JSONValue) {
        guard let device = value["device"]?.stringValue, let name = value["name"]?.stringValue,
            let widgets = value["widgets"]?.arrayValue?.map(\.stringValue), !widgets.contains(nil),
            let at = value["at"]?.timestamp
        else { return nil }
        if let turn = value["turn"], turn != .null {
            guard let widget = turn["widget"]?.stringValue, let at = turn["at"]?.timestamp else { return nil }
            self.turn = Stack.Turn(widget: widget, at: at)
        }
        left = value["left"]?.stringValue
        // Left out where it is on.
        arrangement = StackArrangement(
            device: device, name: name, widgets: widgets.compactMap(\.self),
            smartRotate: value["smartRotate"] != false, suggestions: value["suggestions"] != false)
        changedAt = at
    }
}

extension RelevantShortcut {
    /// `{"kind", "ranges"?, "role"?, "values"?}`, with the beginnings and ends of the ranges in turn.
    fileprivate var stored: JSONValue {
        var object: JSONObject = ["kind": .string(content.kind)]
        if !ranges.isEmpty {
            object["ranges"] = .array(
                ranges.flatMap { [.count($0.lowerBound.microseconds), .count($0.upperBound.microseconds)] })
        }
        if !role.isEmpty { object["role"] = .string(role) }
        if content.configuration != .empty { object["values"] = .string(content.configuration.canonical) }
        return .object(object)
    }

    fileprivate init?(stored value: JSONValue, app: String) {
        let times = value["ranges"]?.arrayValue?.map(\.timestamp) ?? []
        guard let kind = value["kind"]?.stringValue, !times.contains(nil) else { return nil }
        let known = times.compactMap(\.self)
        let values = value["values"]?.stringValue
        self.init(
            content: WidgetContent(
                app: app, kind: kind, configuration: values.map { WidgetConfiguration(storedCanonical: $0) } ?? .empty),
            role: value["role"]?.stringValue ?? "",
            ranges: stride(from: 0, to: known.count - 1, by: 2).map {
                known[$0]..<max(known[$0], known[$0 + 1])
            })
    }
}

extension JSONValue {
    /// A time in microseconds.
    fileprivate var timestamp: Timestamp? { numberValue?.int64.map { Timestamp(microseconds: $0) } }
}
