import JSON

/// Audience of a reload request.
package enum Audience: Hashable, Sendable {
    case user(String)
    case device(String)
    case widget(String)
    case everyone

    /// The id of the user, device or widget.
    package var identifier: String? {
        switch self {
        case .user(let id), .device(let id), .widget(let id): id
        case .everyone: nil
        }
    }

    /// The member's name in an event.
    package var name: String {
        switch self {
        case .user: "user"
        case .device: "device"
        case .widget: "widget"
        case .everyone: "everyone"
        }
    }
}

/// The kinds of a reload request.
package enum KindScope: Hashable, Sendable {
    case all
    /// Unique names in byte order, at least one; made by `init(names:)`.
    case kinds([String])

    /// The kinds of these names in any order; nil without names.
    package init?(names: [String]) {
        switch names.count {
        case 0:
            return nil
        case 1:
            self = .kinds(names)
        default:
            var unique: [String] = []
            unique.reserveCapacity(names.count)
            for name in names.sorted(by: Text.precedes) where unique.last.map({ !Text.equal($0, name) }) ?? true {
                unique.append(name)
            }
            self = .kinds(unique)
        }
    }
}

/// Scope × audience × optional configuration match, with a reason.
package struct ReloadRequest: Hashable, Sendable {
    package var app: String
    package var audience: Audience
    package var kinds: KindScope
    /// Reloads only timelines whose configuration contains these members; nil matches every one.
    package var matching: WidgetConfiguration?
    package var reason: ReloadReason

    package init(
        app: String, audience: Audience, kinds: KindScope, matching: WidgetConfiguration? = nil, reason: ReloadReason
    ) {
        self.app = app
        self.audience = audience
        self.kinds = kinds
        self.matching = matching
        self.reason = reason
    }
}
