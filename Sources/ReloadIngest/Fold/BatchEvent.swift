// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// A decoded message of the batch. A class, since it is large, and passed from step to step.
final class BatchEvent: Sendable {
    /// Index in the polled batch.
    let record: Int
    let position: EventPosition
    /// Time of the event, for lifecycle events and views.
    let time: Timestamp?
    let event: FreshetEvent
    /// Trace of the event.
    let trace: TraceParent?
    /// The attributes `id` and `source`; empty in a prepared batch unless the outcome is kept.
    let id: String
    let source: String
    let handling: EventHandling

    init(
        record: Int, position: EventPosition, time: Timestamp?, event: FreshetEvent, trace: TraceParent? = nil,
        id: String = "", source: String = "", handling: EventHandling = EventHandling()
    ) {
        (self.record, self.position, self.time, self.event) = (record, position, time, event)
        (self.trace, self.id, self.source, self.handling) = (trace, id, source, handling)
    }

    /// Bytes that identify repeated events. They include the user, so that no user suppresses another user's events.
    var identity: [[UInt8]] { Self.identity(app: event.app, id: id, source: source, user: handling.user) }

    static func identity(app: String, id: String, source: String, user: String?) -> [[UInt8]] {
        [app, id, source, user ?? ""].map { Array($0.utf8) }
    }
}

/// A message of the batch that becomes a dead letter, also as the error of an event that cannot be applied.
struct RejectedEvent: Error, Hashable {
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
    /// The app or the kind, if the fold did not find it.
    var unknownName: DirectoryName?
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

    // MARK: Errors of well-formed events

    static func unknownApp(_ record: Int, _ name: String) -> RejectedEvent {
        RejectedEvent(
            record: record, app: name, code: DeadLetterCause.unknownApp.rawValue,
            message: "/app: no app \(Text.quoted(name)) is registered; expected one that `freshet kinds apply` knows",
            pointer: "/app", unknownName: DirectoryName(app: name))
    }

    static func invalidEnvironment(_ record: Int, app: String, _ problem: ModelError) -> RejectedEvent {
        let pointer = "/environment\(problem.pointer)"
        return RejectedEvent(
            record: record, app: app, code: "invalidValue", message: "\(pointer): \(problem.message)", pointer: pointer)
    }

    static func missingTime(_ record: Int, app: String) -> RejectedEvent {
        RejectedEvent(
            record: record, app: app, code: "missingAttribute",
            message:
                "expected the attribute time, or a timestamp of the Kafka message in milliseconds since 1970; found "
                + "neither")
    }
}

extension EventPosition {
    /// Whether the position comes first in the order in which requests are written. Within a partition this is log
    /// order.
    func precedes(_ other: EventPosition) -> Bool {
        (topic, partition, offset) < (other.topic, other.partition, other.offset)
    }
}

/// Class of a failure to apply a batch, also as the error of its fold.
enum ApplyFailure: Error, Equatable {
    /// Another process has taken some of the partitions.
    case fenced
    /// The set of diverted apps has changed.
    case diversionsChanged
    /// Ingest is halted.
    case halted
    /// The directory of kinds is older than the stored widgets.
    case directoryIsBehind
    /// The database refuses the data of an event. Halving the batch finds the event.
    case poison(String)
    /// The batch exceeds a limit of the database and must be halved.
    case tooMuch(String)
    /// A transient failure that the batch does not cause.
    case wait(String)
    /// The task was cancelled.
    case stopped

    init(_ error: any Error) {
        switch error {
        case is CancellationError:
            self = .stopped
        case let failure as ApplyFailure:
            self = failure
        case let error as PostgresError where error.kind == .cancelled:
            self = .stopped
        case let error as PostgresError where error.isFenced:
            self = .fenced
        case let error as PostgresError where error.findsOtherDiversions:
            self = .diversionsChanged
        case let error as PostgresError where error.findsHaltedTopic:
            self = .halted
        case let error as PostgresError where error.blamesData:
            self = .poison("\(error)")
        case let error as PostgresError where error.asksForLess:
            self = .tooMuch("\(error)")
        default:
            self = .wait("\(error)")
        }
    }
}
