import KafkaClient
import WidgetModel

/// Why an event was not published.
public struct WidgetCenterError: Error, Sendable, CustomStringConvertible {
    public enum Code: Hashable, Sendable {
        /// A setting or an argument is not what it may be; nothing was sent.
        case invalidArgument
        /// The brokers did not acknowledge the event. They may have stored it all the same: what Freshet is told twice
        /// has no other effect than one more reload.
        case notAcknowledged
        /// The event is larger than the brokers take.
        case tooLarge
        /// The center was shut down.
        case shutDown
    }

    public let code: Code
    /// What is wrong and what was expected.
    public let message: String
    /// Whether the same call can succeed later.
    public let isRetriable: Bool

    public var description: String { message }

    init(_ code: Code, _ message: String, isRetriable: Bool = false) {
        self.code = code
        self.message = message
        self.isRetriable = isRetriable
    }

    init(_ error: KafkaError) {
        let code: Code =
            switch error.code {
            case .messageTooLarge: .tooLarge
            case .invalidConfiguration: .invalidArgument
            case .invalidState: .shutDown
            default: .notAcknowledged
            }
        self.init(code, error.description, isRetriable: error.isRetriable)
    }

    init(_ error: ModelError, argument: String) {
        self.init(.invalidArgument, "\(argument)\(error.pointer): \(error.message)")
    }
}
