import FreshetClient
import FreshetService
import KafkaClient
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Effect of a published change of a widget, device or stack, as ingest has recorded it.
struct ChangeEffect: Sendable {
    /// Nil: ingest has not applied the event.
    private let result: EventOutcome.Result?
    /// Reason for a change without an effect.
    private let reason: String?

    /// Longest wait for ingest.
    private static let patience = Duration.seconds(5)
    private static let interval = Duration.milliseconds(50)

    private init(_ outcome: EventOutcome, _ delivery: KafkaDelivery) {
        let isRepeated = delivery.offset.map { ($0, delivery.partition) != (outcome.offset, outcome.partition) }
        guard isRepeated != true else {
            (result, reason) = (.ignored, "an event of this source with this id was published before")
            return
        }
        result = outcome.result
        let code = outcome.result == .deadLetter ? "\(outcome.code ?? "dead letter"): " : ""
        reason = outcome.result == .applied ? nil : code + (outcome.detail ?? outcome.result.rawValue)
    }

    private init() {
        (result, reason) = (nil, nil)
    }

    /// Waits until ingest has applied an event whose outcome is kept.
    static func wait(
        for event: OutgoingEvent, _ delivery: KafkaDelivery, _ settings: Settings
    ) async throws -> ChangeEffect {
        let name = EventName(app: event.event.app, id: event.id, source: event.source)
        let deadline = ContinuousClock.now + patience
        return try await settings.withPool { pool in
            while ContinuousClock.now < deadline {
                if let outcome = try await pool.query(.readEventOutcome(name)).first {
                    return ChangeEffect(outcome, delivery)
                }
                try await Task.sleep(for: interval)
            }
            return ChangeEffect()
        }
    }

    /// The result; null if it is not known.
    var json: JSONValue { .text(result?.rawValue) }

    /// Says that the effect is not known.
    ///
    /// - Throws: `CommandFailure` if there is none.
    func report() throws {
        if let reason { throw CommandFailure(.failure, "the event was published and has no effect: \(reason)") }
        guard result == nil else { return }
        Terminal.complain(
            "the event was published and was not applied within \(Self.patience.words), so its effect is not known")
    }
}
