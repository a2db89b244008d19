/// Something that happened to a widget, with the time that its event carries.
package enum WidgetChange: Hashable, Sendable {
    case placed(WidgetPlacement, at: Timestamp)
    case configured(WidgetConfiguration, at: Timestamp)
    case environment(WidgetEnvironment, at: Timestamp)
    case removed(_ widget: String, at: Timestamp)

    package var at: Timestamp {
        switch self {
        case .placed(_, let time), .configured(_, let time), .environment(_, let time), .removed(_, let time): time
        }
    }

    /// The change with a time that is not before another one.
    package func notBefore(_ time: Timestamp) -> WidgetChange {
        guard at < time else { return self }
        return switch self {
        case .placed(let placement, _): .placed(placement, at: time)
        case .configured(let configuration, _): .configured(configuration, at: time)
        case .environment(let environment, _): .environment(environment, at: time)
        case .removed(let widget, _): .removed(widget, at: time)
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
    /// The change is limited to the widgets of a user, and the widget is another user's.
    case foreign
}

/// Effect of a change on a widget.
package enum WidgetOutcome: Hashable, Sendable {
    /// It is new, or back after it had been removed.
    case placed(WidgetRecord)
    /// It shows another timeline, or belongs to another user or device, than before.
    case changed(WidgetRecord)
    /// Nothing but the time of the latest change is new.
    case confirmed(WidgetRecord)
    case removed(WidgetRecord)
    /// Nothing is to be written.
    case ignored(WidgetIgnoredReason)

    /// The record to be written, if any.
    package var record: WidgetRecord? {
        switch self {
        case .placed(let record), .changed(let record), .confirmed(let record), .removed(let record): record
        case .ignored: nil
        }
    }
}

/// Applies lifecycle changes to a widget: pure, so that ingest can fold a batch in memory before it writes.
///
/// A change that is older than the latest applied one has no effect; of equal times the later in the log wins. The removal of
/// a widget that was never placed leaves a tombstone, which an older placement does not override.
package enum WidgetLifecycle {
    /// - Parameters:
    ///   - record: the widget as it is; nil when it is unknown.
    ///   - user: the user whose widgets alone the change may concern; nil for any.
    package static func apply(
        _ change: WidgetChange, to record: WidgetRecord?, limitedTo user: String? = nil
    ) -> WidgetOutcome {
        guard let record, !record.isUnplaced else { return apply(change, toUnplaced: record, user) }
        if isForeign(record, to: user) { return .ignored(.foreign) }
        guard change.at >= record.changedAt else { return .ignored(.older) }
        var next = record
        next.changedAt = change.at
        switch change {
        case .placed(let placement, let time):
            next = WidgetRecord(placement, changedAt: time)
            if record.removed { return .placed(next) }
        case .removed:
            next.removed = true
            return record.removed ? .confirmed(next) : .removed(next)
        case .configured(let configuration, _):
            guard !record.removed else { return .ignored(.removed) }
            next.configuration = configuration
        case .environment(let environment, _):
            guard !record.removed else { return .ignored(.removed) }
            next.environment = environment
        }
        return next.showsSame(as: record) ? .confirmed(next) : .changed(next)
    }

    /// Whether the widget is another user's; nothing is foreign to nil.
    package static func isForeign(_ record: WidgetRecord?, to user: String?) -> Bool {
        guard let record, let user else { return false }
        return !Text.equal(user, record.user)
    }

    /// The reason why a view of a widget does not count; nil if it may.
    package static func ignores(viewOf record: WidgetRecord?, by user: String?) -> WidgetIgnoredReason? {
        guard let record, !record.isUnplaced else { return .unknown }
        if isForeign(record, to: user) { return .foreign }
        return record.removed ? .removed : nil
    }

    /// Applies a change to a widget that was never placed.
    ///
    /// - Parameter tombstone: the tombstone of a removal, if there is one.
    private static func apply(
        _ change: WidgetChange, toUnplaced tombstone: WidgetRecord?, _ user: String?
    ) -> WidgetOutcome {
        // A removal in the name of one user does not concern a widget of another.
        func concerns(_ user: String?) -> Bool {
            tombstone.map { $0.user.isEmpty || Text.equal($0.user, user) } ?? false
        }
        switch change {
        case .placed(let placement, let time):
            if let tombstone, concerns(placement.user), time < tombstone.changedAt { return .ignored(.older) }
            return .placed(WidgetRecord(placement, changedAt: time))
        case .removed(let widget, let time):
            guard var next = tombstone else {
                return .removed(WidgetRecord(unplaced: widget, user: user ?? "", changedAt: time))
            }
            // The tombstone of another user, or of all, stays.
            if isForeign(next, to: user) { return .ignored(.foreign) }
            if concerns(user), time < next.changedAt { return .ignored(.older) }
            if !concerns(user) { next.user = user ?? "" }
            next.changedAt = user == nil ? max(time, next.changedAt) : time
            return .confirmed(next)
        case .configured, .environment: return .ignored(.unknown)
        }
    }
}
