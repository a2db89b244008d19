// SPDX-License-Identifier: Apache-2.0

/// Error of a condition that did not become true in time.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String
}

/// Waits until an external condition (of a database, a process or a broker) is true. This is the only place where tests
/// poll; it waits as long as ``Patience`` allows.
///
/// - Throws: ``NeverHappened`` with `what` after the time limit; errors of the condition.
package func eventually(
    _ what: @autoclosure () -> String, every interval: Duration = .milliseconds(20),
    _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + Patience.limit
    while try await !condition() {
        guard clock.now < deadline else {
            throw NeverHappened(description: "not within \(Patience.limit): \(what())")
        }
        try await clock.sleep(for: interval)
    }
}
