// SPDX-License-Identifier: Apache-2.0

import TestSupport
import WidgetEvents

@testable import WidgetModel

/// Effect of an event on a person's stack, shortcuts or habits.
struct PersonEvent: Sendable {
    enum Change: Sendable {
        case stack([String])
        /// To a widget of a kind.
        case turned(String, kind: String, timeZone: String)
        /// Names of the kinds, with the times at which they are relevant.
        case shortcuts([String], [Range<Timestamp>])
        case donated(kind: String)
    }

    let app: String
    let user: String
    let change: Change
    let time: Timestamp

    static let stack = "home"

    var device: String { "\(user)-d0" }

    /// The published event. Suggestions are off, since Freshet would place widgets for them.
    var message: FreshetEvent {
        switch change {
        case .stack(let widgets):
            return .stackChanged(
                app: app, user: user,
                StackArrangement(device: device, name: Self.stack, widgets: widgets, suggestions: false))
        case .turned(let widget, _, _):
            return .stackTurned(app: app, user: user, device: device, stack: Self.stack, widget: widget)
        case .shortcuts(let kinds, let ranges):
            let shortcuts = kinds.map { RelevantShortcut(content: WidgetContent(app: app, kind: $0), ranges: ranges) }
            return .shortcutsReplaced(app: app, user: user, device: nil, shortcuts)
        case .donated(let kind):
            return .interactionDonated(
                app: app, user: user, DonatedInteraction(kind: kind, device: device, timeZone: "UTC"))
        }
    }
}

/// Expected state of a person according to the log. Stacks, turns and shortcuts are applied independently of the
/// product's code; views are learned with the product's ``Habits``, whose order does not matter.
struct ChaosPerson: Sendable {
    private(set) var stack: (widgets: [String], at: Timestamp)?
    private(set) var turn: (widget: String, at: Timestamp)?
    private(set) var shortcuts: (kinds: [String], ranges: [Range<Timestamp>], at: Timestamp)?
    private(set) var donations: [(kind: String, timeZone: String, at: Timestamp)] = []

    var hasEffect: Bool { stack != nil || shortcuts != nil || !donations.isEmpty }

    mutating func apply(_ event: PersonEvent) {
        switch event.change {
        case .stack(let widgets):
            if let stack, event.time < stack.at { return }
            stack = (widgets, event.time)
        case .turned(let widget, let kind, let timeZone):
            guard let stack, stack.widgets.contains(widget), turn.map({ event.time > $0.at }) ?? true else { return }
            turn = (widget, event.time)
            donations.append((kind, timeZone, event.time))
        case .shortcuts(let kinds, let ranges):
            if let shortcuts, event.time < shortcuts.at { return }
            shortcuts = (kinds, ranges, event.time)
        case .donated(let kind): donations.append((kind, "UTC", event.time))
        }
    }

    /// Expected stored value.
    func record(app: String, user: String, kinds: [KindDefinition]) -> PersonRecord {
        var record = PersonRecord()
        if let stack {
            let arrangement = StackArrangement(
                device: "\(user)-d0", name: PersonEvent.stack, widgets: stack.widgets, suggestions: false)
            record.stacks = [
                PersonRecord.StackState(
                    arrangement: arrangement, changedAt: stack.at, turn: turn.map { Stack.Turn(widget: $0, at: $1) })
            ]
        }
        if let shortcuts {
            let contents = shortcuts.kinds.map {
                RelevantShortcut(content: WidgetContent(app: app, kind: $0), ranges: shortcuts.ranges)
            }
            record.sets = [PersonRecord.ShortcutSet(device: nil, shortcuts: contents, changedAt: shortcuts.at)]
        }
        for (name, timeZone, time) in donations {
            guard let kind = kinds.first(where: { $0.name == name }) else { continue }
            let values = kind.effective(.empty, family: kind.anyFamily)
            let contents = HabitContent.contents(kind: name, configuration: values, intent: kind.intent)
            if let recurring = record.learn(contents, at: HalfHour(at: time, timeZone: timeZone)) {
                _ = record.remember(recurring)
            }
        }
        return record
    }
}
