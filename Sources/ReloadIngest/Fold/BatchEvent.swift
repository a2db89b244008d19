import WidgetEvents
import WidgetModel
import WidgetStore

/// A decoded message of the batch.
struct BatchEvent: Sendable {
    /// Index in the polled batch.
    var record: Int
    var position: EventPosition
    /// Time of the event, for lifecycle events and views.
    var time: Timestamp?
    var event: FreshetEvent
    /// Trace of the event.
    var trace: TraceParent?
    /// The attributes `id` and `source`.
    var id = ""
    var source = ""
    var handling = EventHandling()

    /// Bytes that identify repeated events. They include the user, so that no user suppresses another user's events.
    var identity: [[UInt8]] { Self.identity(event.app, id, source, handling.user) }

    static func identity(_ app: String, _ id: String, _ source: String, _ user: String?) -> [[UInt8]] {
        [app, id, source, user ?? ""].map { Array($0.utf8) }
    }
}

/// A message of the batch that becomes a dead letter.
struct RejectedEvent: Hashable, Sendable {
    /// Index in the polled batch.
    var record: Int
    var app: String?
    /// Name of the error's class.
    var code: String
    var message: String
    /// JSON pointer to the error.
    var pointer: String?
    /// Whether the outcome is kept.
    var keepsOutcome = false
}

/// A lifecycle event of the batch without effect.
struct IgnoredEvent: Hashable, Sendable {
    /// Index in the polled batch.
    var record: Int
    var reason: WidgetIgnoredReason
}

extension RejectedEvent {
    /// The rejection of an event of a diverted app.
    static func diverted(_ record: Int, app: String) -> RejectedEvent {
        RejectedEvent(
            record: record, app: app, code: DeadLetterCause.diverted.rawValue,
            message: "the app is diverted: its events wait until `freshet dead-letters resume --app \(app)`")
    }

    /// The rejection of an event of a diverted app whose events are no longer kept.
    static func dropped(_ record: Int, app: String) -> RejectedEvent {
        RejectedEvent(
            record: record, app: app, code: EventOutcome.dropped,
            message: "the app is diverted, and more of its events wait than may: this one is lost")
    }

    /// The rejection of an event of no registered app, on a topic whose events of no registered app are no longer kept.
    static func droppedWithoutApp(_ record: Int, app: String?) -> RejectedEvent {
        RejectedEvent(
            record: record, app: app, code: EventOutcome.dropped,
            message: "more events of no registered app wait than may: this one is lost")
    }

    /// Reason why a well-formed event cannot be applied.
    struct Reason: Error {
        var app: String
        var code: String
        var message: String
        var pointer: String?
        /// The app or the kind, if it was not found.
        var unknownName: DirectoryName?

        static func invalidEnvironment(app: String, _ problem: ModelError) -> Reason {
            let pointer = "/environment\(problem.pointer)"
            return Reason(app: app, code: "invalidValue", message: "\(pointer): \(problem.message)", pointer: pointer)
        }

        static func missingTime(app: String) -> Reason {
            Reason(
                app: app, code: "missingAttribute",
                message:
                    "expected the attribute time, or a timestamp of the Kafka message in milliseconds since 1970; found "
                    + "neither")
        }
    }
}

extension EventPosition {
    /// Whether the position comes first in the order in which requests are written. Within a partition this is log
    /// order.
    func precedes(_ other: EventPosition) -> Bool {
        (topic, partition, offset) < (other.topic, other.partition, other.offset)
    }
}
