// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import WidgetEvents
import WidgetModel
import WidgetStore

extension PreparedBatch {
    /// Largest number of unrequested outcomes of widget events that are stored in one transaction, the newest ones.
    private static let maximumIgnored = 1_000

    /// Outcomes to be stored: those of events whose publishers request them, and those of lifecycle events without
    /// effect.
    func outcomes(of fold: BatchFold, _ ignored: [IgnoredEvent], _ rejected: [RejectedEvent]) -> [EventOutcome] {
        guard !fold.kept.isEmpty || !ignored.isEmpty else { return [] }
        let reasons = Dictionary(ignored.map { ($0.record, $0.reason) }) { $1 }
        let errors = Dictionary((rejected + fold.diverted + fold.dropped).map { ($0.record, $0) }) { $1 }
        let kept = Set(fold.kept)
        let records = kept.union(ignored.suffix(Self.maximumIgnored).map(\.record))
        // The latest outcome for each app, id, source and user.
        var outcomes: [[[UInt8]]: EventOutcome] = [:]
        for record in records.sorted() {
            guard let event = event(record), let app = fold.registeredApp(event.event.app) else { continue }
            var outcome = outcome(event, app)
            // An unrequested outcome without a widget is of no use to `explain`.
            guard outcome.widget != nil || kept.contains(record) else { continue }
            if let reason = reasons[record] { outcome.ignore(reason) }
            if let error = errors[record] { outcome.reject(error) }
            outcomes[event.identity] = outcome
        }
        return Array(outcomes.values)
    }

    private func outcome(_ event: BatchEvent, _ app: RegisteredApp) -> EventOutcome {
        EventOutcome(
            appID: app.id, event: event.id, source: event.source, type: event.event.type.rawValue,
            topic: batch.topic(event.record), partition: event.position.partition, offset: event.position.offset,
            user: event.handling.user, widget: event.event.widget, time: event.time)
    }
}

extension EventOutcome {
    fileprivate mutating func ignore(_ reason: WidgetIgnoredReason) {
        switch reason {
        case .older:
            (result, detail) = (.outdated, "a newer change had been applied")
        case .removed:
            (result, code, detail) = (.ignored, "removedWidget", "the widget has been removed")
        // The outcome does not disclose whether another user has a widget of this id.
        case .unknown, .foreign:
            (result, code) = (.ignored, "unknownWidget")
            detail = widget == nil ? "the device has no widgets" : "no such widget was placed"
        case .unknownStack:
            (result, code, detail) = (.ignored, reason.rawValue, "the device has no such stack")
        case .notInStack:
            (result, code, detail) = (.ignored, reason.rawValue, "the stack does not have this widget")
        case .unsupportedCombination:
            (result, code) = (.ignored, reason.rawValue)
            detail = "the values are no supported combination of the kind's parameters"
        case .unknownTimeZone:
            (result, code) = (.ignored, reason.rawValue)
            detail = "the donation has no time zone, and the user no widget"
        }
    }

    fileprivate mutating func reject(_ error: RejectedEvent) {
        result =
            switch error.code {
            case DeadLetterCause.diverted.rawValue: .diverted
            case Self.dropped: .ignored
            default: .deadLetter
            }
        (code, detail, pointer) = (error.code, error.message, error.pointer)
    }
}

/// Decisions at the time of a request: merged with a pending reload, deferred, or refused. Workers decide requests that
/// are due at once.
extension TimelineDecidedEvent {
    /// Nil if the request is due at once, or the row was written for a view or a placement.
    init?(marked: MarkedTimeline, directory: KindDirectory) {
        let (timeline, kind) = (marked.timeline, directory.kinds[marked.timeline.kindID])
        let rules = kind.map { ReloadRules($0.definition, developerMode: $0.isDeveloperMode) }
        guard marked.events > 0,
            let (decision, rule) = timeline.state.decision(
                onRequests: marked.events, listedAt: marked.listedAt, renderedAt: timeline.renderedAt, rules,
                at: timeline.readAt)
        else { return nil }
        self.init(decision: decision, rule: rule)
        (self.timeline, app, self.kind) = (timeline.id, kind?.app, kind?.definition.name)
        (user, reason, lane) = (timeline.user, timeline.reason, marked.lane)
        (requested, rendered) = (timeline.state.requested, timeline.state.rendered)
        (cause, dueAt, eligibleAt) = (timeline.cause, marked.listedAt, timeline.state.eligibleAt)
    }

    /// The decision on a request that became a dead letter.
    init(refused event: RejectedEvent, at position: EventPosition?) {
        self.init(decision: .refused, rule: .invalidEvent)
        (app, cause, error) = (event.app, position, event.code)
    }
}
