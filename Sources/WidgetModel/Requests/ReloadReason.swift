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

    package static let names = NameTable<ReloadReason>()

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
    /// Needs a token and the kind's spacing.
    case budgeted = 0
    /// Takes no token; a shared timeline still keeps its spacing.
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

    package static let names = NameTable<ReloadLane>()

    package static func < (left: ReloadLane, right: ReloadLane) -> Bool { left.rawValue < right.rawValue }
}
