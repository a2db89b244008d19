// SPDX-License-Identifier: Apache-2.0

import JSON

/// Placement of a widget on a user's device.
package struct WidgetPlacement: Hashable, Sendable {
    package var app: String
    package var widget: String
    package var user: String
    package var device: String
    package var kind: String
    package var family: WidgetFamily
    package var configuration: WidgetConfiguration
    package var environment: WidgetEnvironment

    package init(
        app: String, widget: String, user: String, device: String, kind: String, family: WidgetFamily,
        configuration: WidgetConfiguration = .empty, environment: WidgetEnvironment
    ) {
        self.app = app
        self.widget = widget
        self.user = user
        self.device = device
        self.kind = kind
        self.family = family
        self.configuration = configuration
        self.environment = environment
    }
}

/// State of a widget. A removed one stays as a tombstone, which older events must not override.
@dynamicMemberLookup
package struct WidgetRecord: Hashable, Sendable {
    package var placement: WidgetPlacement
    /// Time of the latest change applied.
    package var changedAt: Timestamp
    package var removed: Bool

    package init(_ placement: WidgetPlacement, changedAt: Timestamp, removed: Bool = false) {
        self.placement = placement
        self.changedAt = changedAt
        self.removed = removed
    }

    /// The tombstone of a widget that was removed before it was placed.
    ///
    /// - Parameter user: owner to whom the removal is limited; empty for any.
    package init(unplaced widget: String, user: String, changedAt: Timestamp) {
        let placement = WidgetPlacement(
            app: "", widget: widget, user: user, device: "", kind: "", family: .systemSmall,
            environment: WidgetEnvironment(storedLocale: "", timeZone: ""))
        self.init(placement, changedAt: changedAt, removed: true)
    }

    package subscript<Value>(dynamicMember path: WritableKeyPath<WidgetPlacement, Value>) -> Value {
        get { placement[keyPath: path] }
        set { placement[keyPath: path] = newValue }
    }

    /// Whether the record is the tombstone of a widget that was never placed. Such a record has no device.
    package var isUnplaced: Bool { placement.device.isEmpty }

    /// Whether two records show the same timeline to the same person on the same device.
    func showsSame(as other: WidgetRecord) -> Bool {
        removed == other.removed && Text.equal(self.user, other.user) && Text.equal(self.device, other.device)
            && Text.equal(self.kind, other.kind) && self.family == other.family
            && self.configuration == other.configuration && self.environment == other.environment
    }
}

/// A change of one widget, as its app reports it.
package enum WidgetChange: Hashable, Sendable {
    case placed(WidgetPlacement)
    case configured(widget: String, WidgetConfiguration)
    case removed(widget: String)

    package var widget: String {
        switch self {
        case .placed(let placement): placement.widget
        case .configured(let widget, _), .removed(let widget): widget
        }
    }

    /// Reason of the reload of a timeline that the widget starts to show.
    package var reason: ReloadReason {
        switch self {
        case .placed, .removed: .placed
        case .configured: .configured
        }
    }

    /// The change, completed with the widget's present values for parameters that have a dynamic default and that the
    /// change leaves out.
    ///
    /// - Parameter intent: of the widget's present kind.
    package func keepingDefaults(of record: WidgetRecord?, _ intent: IntentDefinition?) -> WidgetChange {
        guard let record, !record.removed, let intent else { return self }
        switch self {
        case .placed(var placement)
        where Text.equal(placement.kind, record.kind) && Text.equal(placement.user, record.user):
            placement.configuration = intent.completed(placement.configuration, from: record.configuration)
            return .placed(placement)
        case .configured(let widget, let configuration):
            return .configured(widget: widget, intent.completed(configuration, from: record.configuration))
        default: return self
        }
    }
}

/// Reason why a change had no effect.
package enum WidgetIgnoredReason: String, CaseIterable, Hashable, Sendable {
    /// A newer change of the widget has been applied.
    case older = "outdated"
    /// The widget was never placed.
    case unknown
    /// The widget has been removed.
    case removed
    /// The change is limited to the widgets of one user, and the widget belongs to another user.
    case foreign
    /// The device has no stack of this name.
    case unknownStack
    /// The stack that was turned does not have the widget.
    case notInStack
    /// The donated values are no supported combination of the kind's parameters.
    case unsupportedCombination
    /// The donation has no time zone, and the person no widget.
    case unknownTimeZone
}

/// Effect of a change on a widget.
package enum WidgetOutcome: Hashable, Sendable {
    /// It is new, or placed again after its removal.
    case placed(WidgetRecord)
    /// Its timeline, user or device has changed.
    case changed(WidgetRecord)
    /// Only the time of the latest change is new.
    case confirmed(WidgetRecord)
    case removed(WidgetRecord)
    /// No write is needed.
    case ignored(WidgetIgnoredReason)

    /// The record to write, if any.
    package var record: WidgetRecord? {
        switch self {
        case .placed(let record), .changed(let record), .confirmed(let record), .removed(let record): record
        case .ignored: nil
        }
    }
}

/// Pure rules of lifecycle changes, so that ingest can fold a batch in memory before it writes.
///
/// A change that is older than the latest applied one has no effect; at equal times the later one in the log wins. The
/// removal of a widget that was never placed leaves a tombstone, which an older placement does not override.
extension WidgetRecord {
    /// - Parameters:
    ///   - time: time of the change.
    ///   - record: the current state; nil for an unknown widget.
    ///   - user: owner to whom the change is limited; nil for any.
    package static func apply(
        _ change: WidgetChange, at time: Timestamp, to record: WidgetRecord?, limitedTo user: String? = nil
    ) -> WidgetOutcome {
        guard let record, !record.isUnplaced else { return apply(change, at: time, toUnplaced: record, user) }
        if let reason = ignores(changeAt: time, of: record, by: user) { return .ignored(reason) }
        var next = record
        next.changedAt = time
        switch change {
        case .placed(let placement):
            next = WidgetRecord(placement, changedAt: time)
            if Text.equal(placement.device, record.device) {
                next.environment = placement.environment.completed(from: record.environment)
            }
            if record.removed { return .placed(next) }
        case .removed:
            next.removed = true
            return record.removed ? .confirmed(next) : .removed(next)
        case .configured(_, let configuration):
            guard !record.removed else { return .ignored(.removed) }
            next.configuration = configuration
        }
        return next.showsSame(as: record) ? .confirmed(next) : .changed(next)
    }

    /// Applies the environment of a widget's device.
    ///
    /// The parameters are those of ``apply(_:at:to:limitedTo:)``.
    package static func apply(
        _ environment: WidgetEnvironment, at time: Timestamp, to record: WidgetRecord?, limitedTo user: String? = nil
    ) -> WidgetOutcome {
        guard let record, !record.isUnplaced else { return .ignored(.unknown) }
        if let reason = ignores(changeAt: time, of: record, by: user) { return .ignored(reason) }
        guard !record.removed else { return .ignored(.removed) }
        var next = record
        next.changedAt = time
        next.environment = environment.completed(from: record.environment)
        return next.showsSame(as: record) ? .confirmed(next) : .changed(next)
    }

    private static func ignores(
        changeAt time: Timestamp, of record: WidgetRecord, by user: String?
    ) -> WidgetIgnoredReason? {
        if isForeign(record, to: user) { return .foreign }
        return time < record.changedAt ? .older : nil
    }

    /// Whether the widget belongs to another user; false for nil.
    package static func isForeign(_ record: WidgetRecord?, to user: String?) -> Bool {
        guard let record, let user else { return false }
        return !Text.equal(user, record.user)
    }

    /// Reason to ignore a view of a widget; nil if it counts.
    package static func ignores(viewOf record: WidgetRecord?, by user: String?) -> WidgetIgnoredReason? {
        guard let record, !record.isUnplaced else { return .unknown }
        if isForeign(record, to: user) { return .foreign }
        return record.removed ? .removed : nil
    }

    /// Applies a change to a widget that was never placed.
    ///
    /// - Parameter tombstone: tombstone of an earlier removal.
    private static func apply(
        _ change: WidgetChange, at time: Timestamp, toUnplaced tombstone: WidgetRecord?, _ user: String?
    ) -> WidgetOutcome {
        // A removal on behalf of one user does not concern another user's widget.
        func concerns(_ user: String?) -> Bool {
            tombstone.map { $0.user.isEmpty || Text.equal($0.user, user) } ?? false
        }
        switch change {
        case .placed(let placement):
            if let tombstone, concerns(placement.user), time < tombstone.changedAt { return .ignored(.older) }
            return .placed(WidgetRecord(placement, changedAt: time))
        case .removed(let widget):
            guard var next = tombstone else {
                return .removed(WidgetRecord(unplaced: widget, user: user ?? "", changedAt: time))
            }
            // A tombstone for another user, or for all, stays.
            if isForeign(next, to: user) { return .ignored(.foreign) }
            if concerns(user), time < next.changedAt { return .ignored(.older) }
            if !concerns(user) { next.user = user ?? "" }
            next.changedAt = user == nil ? max(time, next.changedAt) : time
            return .confirmed(next)
        case .configured: return .ignored(.unknown)
        }
    }
}
