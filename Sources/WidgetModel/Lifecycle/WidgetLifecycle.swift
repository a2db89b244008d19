/// Something that happened to a widget, with the time that its event carries.
package enum WidgetChange: Hashable, Sendable {
    case placed(WidgetPlacement, at: Timestamp)
    case configured(WidgetConfiguration, at: Timestamp)
    case environment(WidgetEnvironment, at: Timestamp)
    case removed(at: Timestamp)

    package var at: Timestamp {
        switch self {
        case .placed(_, let time), .configured(_, let time), .environment(_, let time), .removed(let time): time
        }
    }
}

/// Why a change had no effect.
package enum WidgetIgnoredReason: Hashable, Sendable {
    /// A newer change of the widget has been applied.
    case older
    /// The widget was never placed.
    case unknown
    /// The widget has been removed.
    case removed
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
/// A change that is older than the latest applied one has no effect; of equal times the later in the log wins.
package enum WidgetLifecycle {
    /// - Parameter record: the widget as it is; nil when it is unknown.
    package static func apply(_ change: WidgetChange, to record: WidgetRecord?) -> WidgetOutcome {
        guard let record else {
            guard case .placed(let placement, let time) = change else { return .ignored(.unknown) }
            return .placed(WidgetRecord(placement, changedAt: time))
        }
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

    /// Applies changes in log order; answers the widget afterwards and what each change did.
    package static func reduce(
        _ record: WidgetRecord?, _ changes: some Sequence<WidgetChange>
    ) -> (record: WidgetRecord?, outcomes: [WidgetOutcome]) {
        var record = record
        var outcomes: [WidgetOutcome] = []
        for change in changes {
            let outcome = apply(change, to: record)
            record = outcome.record ?? record
            outcomes.append(outcome)
        }
        return (record, outcomes)
    }
}
