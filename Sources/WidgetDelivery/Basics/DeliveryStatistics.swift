import Synchronization
package import WidgetModel

/// Effect of a push.
package enum PushEffect: Hashable, Sendable {
    case answered(APNsAnswer.Effect)
    /// The service was not reached.
    case unanswered
    /// It could not be sent: a key or a token cannot be used.
    case unusable

    package static let all = APNsAnswer.Effect.allCases.map(PushEffect.answered) + [.unanswered, .unusable]

    package var name: String {
        switch self {
        case .answered(let effect): "\(effect)"
        case .unanswered: "unanswered"
        case .unusable: "unusable"
        }
    }
}

/// Counts of the delivery of one process.
package final class DeliveryStatistics: Sendable {
    package struct Snapshot: Hashable, Sendable {
        /// Devices marked for a change.
        package var marked = 0
        /// Pushes by app and effect of the answer, those without one among `unanswered`.
        package var pushes: [String: [PushEffect: Int]] = [:]
        /// Devices in accepted requests of webhooks, by app.
        package var webhookDevices: [String: Int] = [:]
        /// Devices in requests of webhooks that were not accepted, by app.
        package var webhookFailures: [String: Int] = [:]
        /// Of these, devices that had failed ten times before, by app.
        package var webhookStuck: [String: Int] = [:]
        /// Devices that had fetched the changes before they were due.
        package var spared = 0
        package var databaseErrors = 0
        /// Times from a change to the acceptance of its push, in seconds.
        package var latencySum = 0.0
    }

    private let counts = Mutex(Snapshot())

    package init() {}

    package var snapshot: Snapshot { counts.withLock { $0 } }

    func count(_ body: (inout sending Snapshot) -> Void) {
        counts.withLock { body(&$0) }
    }
}
