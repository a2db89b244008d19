/// A condition that did not come true in time.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String
}

/// Waits until a condition of the world outside (a database, a process, a broker) is true: the one place in the tests
/// that looks again and again.
///
/// - Throws: ``NeverHappened`` with `what` when it is not true in time; what the condition throws.
package func eventually(
    _ what: String, within timeout: Duration = .seconds(30), every interval: Duration = .milliseconds(20),
    _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let deadline = clock.now + timeout
    while try await !condition() {
        guard clock.now < deadline else {
            throw NeverHappened(description: "not within \(timeout): \(what)")
        }
        try await clock.sleep(for: interval)
    }
}
