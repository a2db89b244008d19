import WidgetEvents
import WidgetModel

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

extension WidgetEvent {
    /// The event as Freshet's decoder accepts it, with its envelope.
    ///
    /// - Throws: `invalidArgument` for what the decoder would refuse, with the argument's name.
    func outgoing(app: String, traceparent: String?) throws(WidgetCenterError) -> OutgoingEvent {
        if let problem = EventEncoder.attributeProblem(id) {
            throw WidgetCenterError(.invalidArgument, "id \(problem)")
        }
        return OutgoingEvent(
            try content.event(app: app), id: id, time: try Self.time(date), key: try key(), traceparent: traceparent)
    }

    static func time(_ date: Date) throws(WidgetCenterError) -> Timestamp {
        let seconds = date.timeIntervalSince1970
        // From 1970 to before the year 10000, which no RFC 3339 text can name; not a number is in no range.
        guard (0..<253_402_300_800).contains(seconds) else {
            throw WidgetCenterError(.invalidArgument, "date: expected one from 1970 to 9999")
        }
        return Timestamp(microseconds: Int64((seconds * 1_000_000).rounded(.down)))
    }

    /// Partition key that keeps a user's events in order; nil if the event has its own.
    private func key() throws(WidgetCenterError) -> String? {
        switch content {
        case .configured(_, let user, _), .removed(_, let user), .viewed(_, let user),
            .environmentChanged(_, let user, _, _):
            try Self.check(user, "user")
            return user
        case .push, .appChange, .operatorReload, .placed, .person:
            return nil
        }
    }

    static func check(_ text: String, _ argument: String) throws(WidgetCenterError) {
        if let problem = Text.identifierProblem(text) {
            throw WidgetCenterError(.invalidArgument, "\(argument) \(problem)")
        }
    }
}

extension WidgetEvent.Content {
    fileprivate func event(app: String) throws(WidgetCenterError) -> FreshetEvent {
        switch self {
        case .push(let scope):
            return .push(try scope.request(app, .push))
        case .appChange(let state, let scope):
            return .appChange(try scope.request(app, state == .foreground ? .foreground : .background))
        case .operatorReload(let scope):
            return .operatorReload(try scope.request(app, .operator))
        case .placed(let widget):
            for (text, argument) in [
                (widget.id, "widget.id"), (widget.user, "widget.user"), (widget.device, "widget.device"),
                (widget.kind, "widget.kind"),
            ] {
                try WidgetEvent.check(text, argument)
            }
            return .placed(
                WidgetPlacement(
                    app: app, widget: widget.id, user: widget.user, device: widget.device, kind: widget.kind,
                    family: widget.family.model,
                    configuration: try widget.configuration.configuration("widget.configuration"),
                    environment: try widget.environment.model()))
        case .configured(let widget, _, let configuration):
            try WidgetEvent.check(widget, "widget")
            return .configured(
                app: app, widget: widget, configuration: try configuration.configuration("configuration"))
        case .removed(let widget, _):
            try WidgetEvent.check(widget, "widget")
            return .removed(app: app, widget: widget)
        case .viewed(let widget, _):
            try WidgetEvent.check(widget, "widget")
            return .viewed(app: app, widget: widget)
        case .environmentChanged(let device, _, let environment, let significantTimeChange):
            try WidgetEvent.check(device, "device")
            return .environmentChanged(
                app: app, device: device, environment: try environment.model(),
                significantTimeChange: significantTimeChange)
        case .person(let content): return try content.event(app: app)
        }
    }
}

extension WidgetEvent.ReloadScope {
    /// Most kinds that one request may name.
    private static var maximumKinds: Int { 1000 }

    fileprivate func request(_ app: String, _ reason: ReloadReason) throws(WidgetCenterError) -> ReloadRequest {
        let model: WidgetModel.Audience =
            switch audience {
            case .user(let id): .user(id)
            case .device(let id): .device(id)
            case .widget(let id): .widget(id)
            case .everyone: .everyone
            }
        if let identifier = model.identifier { try WidgetEvent.check(identifier, "audience") }
        let matching = values.isEmpty ? nil : try values.configuration("matching")
        return ReloadRequest(app: app, audience: model, kinds: try scope(), matching: matching, reason: reason)
    }

    private func scope() throws(WidgetCenterError) -> KindScope {
        guard let kinds else { return .all }
        for kind in kinds { try WidgetEvent.check(kind, "kind") }
        guard let scope = KindScope(names: kinds) else {
            throw WidgetCenterError(.invalidArgument, "kinds: expected at least one")
        }
        if case .kinds(let names) = scope, names.count > Self.maximumKinds {
            throw WidgetCenterError(.invalidArgument, "kinds: expected at most \(Self.maximumKinds)")
        }
        return scope
    }
}
