import Foundation
package import Testing

/// The one limit for whatever a test waits for: long enough for a slow machine that does other things as well. It ends only
/// waits that would never end, so no test is decided by it.
package enum Patience {
    /// The seconds in `FRESHET_TEST_PATIENCE`; 300 without it.
    package static let limit: Duration = {
        guard let text = ProcessInfo.processInfo.environment["FRESHET_TEST_PATIENCE"], !text.isEmpty else {
            return .seconds(300)
        }
        guard let seconds = Int64(text), seconds > 0 else {
            fatalError("FRESHET_TEST_PATIENCE is not a number of seconds: \(text)")
        }
        return .seconds(seconds)
    }()

    /// The limit for a message's delivery, which Kafka's clients bound.
    package static let delivery = min(limit, .seconds(900))
}

extension TimeLimitTrait.Duration {
    /// Limit of a whole test: twice ``Patience``, in minutes, so that the wait that does not end is reported first.
    package static var patience: Self {
        .minutes((2 * Patience.limit.components.seconds + 59) / 60)
    }
}
