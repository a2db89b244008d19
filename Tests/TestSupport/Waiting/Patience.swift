// SPDX-License-Identifier: Apache-2.0

import Foundation
package import Testing

/// Time limit of all waits in tests, generous enough for a slow and busy machine.
///
/// It only ends waits that would never end; no test depends on its value.
package enum Patience {
    /// Value of `FRESHET_TEST_PATIENCE` in seconds; 300 by default.
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

    /// Limit for the delivery of a message, which Kafka's clients bound.
    package static let delivery = min(limit, .seconds(900))
}

extension TimeLimitTrait.Duration {
    /// Limit of a whole test: twice ``Patience``, in minutes, so that a wait reports its own time-out first.
    package static var patience: Self {
        .minutes((2 * Patience.limit.components.seconds + 59) / 60)
    }
}
