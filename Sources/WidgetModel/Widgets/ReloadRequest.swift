// SPDX-License-Identifier: Apache-2.0

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

/// Reason of a reload. The raw values are stored: never renumber them.
package enum ReloadReason: Int16, NamedValue {
    case placed = 0
    case configured = 1
    case environment = 2
    case foreground = 3
    case `operator` = 4
    case push = 5
    case background = 6
    case policy = 7

    package static let names = nameTable()

    /// Urgency class of the work.
    package var lane: ReloadLane {
        switch self {
        case .placed, .configured, .environment, .foreground, .operator: .interactive
        case .push, .background: .push
        case .policy: .scheduled
        }
    }
}

/// Rules that apply to a request. The most urgent one of folded requests counts. The raw values are stored: never
/// renumber them.
package enum RequestUrgency: Int16, CaseIterable, Comparable, Sendable {
    /// Needs a budget token and the kind's spacing.
    case budgeted = 0
    /// Takes no budget token; a shared timeline still keeps its spacing.
    case free = 1
    /// An operator's, without limits.
    case forced = 2

    package static func < (left: RequestUrgency, right: RequestUrgency) -> Bool { left.rawValue < right.rawValue }
}

extension ReloadReason {
    package var urgency: RequestUrgency {
        switch self {
        case .operator: .forced
        case .placed, .configured, .environment, .foreground: .free
        case .push, .background, .policy: .budgeted
        }
    }
}

/// Urgency class of due work; a lower one goes first. The raw values are stored: never renumber them.
package enum ReloadLane: Int16, NamedValue, Comparable {
    case interactive = 0
    case push = 1
    case scheduled = 2
    case bulk = 3

    package static let names = nameTable()

    package static func < (left: ReloadLane, right: ReloadLane) -> Bool { left.rawValue < right.rawValue }
}

/// Position of an event in Kafka, stored with its effects so that *explain* can name it.
package struct EventPosition: Hashable, Sendable {
    /// Index of the topic among the input topics (0 pushes, 1 app changes, 2 widgets).
    package var topic: Int16
    package var partition: Int32
    package var offset: Int64

    package init(topic: Int16, partition: Int32, offset: Int64) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
    }
}
