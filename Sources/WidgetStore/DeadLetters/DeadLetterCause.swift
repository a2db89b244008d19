import PostgresClient

/// Reason for which an event waits in the database instead of having been applied. The raw values are stored, and
/// operators filter by them.
package enum DeadLetterCause: String, CaseIterable, Hashable, Sendable, PostgresConvertible {
    /// Not readable as JSON.
    case malformed
    /// Readable, but against the schema or the state.
    case invalid
    /// Of an app that was not registered.
    case unknownApp
    /// Names a kind that its app did not have.
    case unknownKind
    /// Needs stored state that this version cannot read, such as a kind's definition; nothing is wrong with it.
    case unreadable
    /// The database refused its values.
    case refused
    /// Of an app whose events its topic may not carry; not the app's fault.
    case notAllowed
    /// Of a diverted app; no fault is known.
    case diverted

    /// Makes the cause from an error's class.
    package init(code: String) {
        switch code {
        case "malformedJSON", "invalidUTF8", "tooLarge", "unsupportedContentType", "missingData": self = .malformed
        case "databaseRefused": self = .refused
        case "unreadableKind", "unreadableWidget": self = .unreadable
        case "unknownApp", "unknownKind", "notAllowed", "diverted": self = DeadLetterCause(rawValue: code) ?? .invalid
        default: self = .invalid
        }
    }

    /// Whether the producer is at fault, so that the event counts towards the limit of its app. Events of apps that are
    /// not registered yet, events that wait for a newer version and diverted events do not count, nor do events that
    /// another party wrote under the app's name.
    package var isFault: Bool {
        switch self {
        case .malformed, .invalid, .unknownKind, .refused: true
        case .unknownApp, .unreadable, .notAllowed, .diverted: false
        }
    }
}

/// Limits of dead letters beyond which an app is diverted, and a topic is halted (DESIGN.md, “Ingest”).
package struct DeadLetterLimits: Hashable, Sendable {
    /// Time over which failed events are counted.
    package var window: Duration = .seconds(60)
    /// An app is over its limit with more failed events than this within the window…
    package var letters = 100
    /// …which are also at least this share of its events, in percent.
    package var share = 10
    /// Apps over their limit on one topic within ten windows that halt it.
    package var haltingApps = 3
    /// Most failed events of one app that wait; more divert it.
    package var quota = Quota(letters: 100_000, bytes: 256 << 20)
    /// Most waiting events of a diverted app, and of unregistered apps on a topic. More are dropped, or halt the topic if
    /// it is one app's alone.
    package var waiting = Quota(letters: 500_000, bytes: 2 << 30)

    package struct Quota: Hashable, Sendable {
        package var letters: Int
        package var bytes: Int

        /// Part of the quota that is used; above 1, it is exceeded.
        package func use(letters: Int64, bytes: Int64) -> Double {
            max(Double(letters) / Double(self.letters), Double(bytes) / Double(self.bytes))
        }
    }

    package init() {}
}
