/// Why an event waits in the database instead of having been applied. The raw values are stored, and are what operators
/// filter by.
package enum DeadLetterCause: String, CaseIterable, Hashable, Sendable {
    /// No JSON, or none that could be read.
    case malformed
    /// Read, but not an event as its schema or the state has it.
    case invalid
    /// Of an app that is not registered, or was not yet.
    case unknownApp
    /// Names a kind that its app does not have, or did not have yet.
    case unknownKind
    /// The database does not take what it says.
    case refused
    /// Of an app whose events its topic may not carry: not the app's own doing.
    case notAllowed
    /// Nothing is known to be wrong with it: its app is diverted.
    case diverted

    /// The cause that a class of errors is of.
    package init(code: String) {
        switch code {
        case "malformedJSON", "invalidUTF8", "tooLarge", "unsupportedContentType", "missingData": self = .malformed
        case "databaseRefused": self = .refused
        default:
            let named = DeadLetterCause(rawValue: code)
            switch named {
            case .unknownApp?, .unknownKind?, .notAllowed?, .diverted?: self = named ?? .invalid
            default: self = .invalid
            }
        }
    }

    /// Whether it is a fault of the producer's, which counts towards the limit of its app. Events of an app that is only
    /// not registered yet are in order, and so are diverted ones; and what somebody else wrote under an app's name must not
    /// stop the app.
    package var isFault: Bool {
        switch self {
        case .malformed, .invalid, .unknownKind, .refused: true
        case .unknownApp, .notAllowed, .diverted: false
        }
    }
}

/// How many dead letters an app may make before its events are diverted, and what makes ingest halt (design, section 4).
package struct DeadLetterLimits: Hashable, Sendable {
    /// The time over which failed events are counted.
    package var window: Duration = .seconds(60)
    /// An app is over its limit with more failed events than this within the window…
    package var letters = 100
    /// …which are also at least this share of its events, in percent.
    package var share = 10
    /// So many apps that come over their limit within ten windows halt ingest.
    package var haltingApps = 3
    /// Most events that wait for one diverted app, and for all apps that are not registered; more halt ingest.
    package var waiting = 500_000

    package init() {}
}
