import Foundation
package import Testing

/// Time limit of everything that a test waits for, generous enough for a slow and busy machine.
///
/// It only ends waits that would never end; no test depends on its value.
package enum Patience {
    /// The seconds in `FRESHET_TEST_PATIENCE`; 300 without it.
    package static let limit: Duration = {
        guard let text = ProcessInfo.processInfo.environment["FRESHET_TEST_PATIENCE"], !text.isEmpty else {
            return .seconds(300)
        }
        guard let seconds = Int64(text), seconds > 0 else {
            let problem = "FRESHET_TEST_PATIENCE: expected a whole number of seconds above 0, found \(text)\n"
            FileHandle.standardError.write(Data(problem.utf8))
            exit(78)
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
