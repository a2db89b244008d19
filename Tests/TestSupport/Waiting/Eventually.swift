/// A condition that did not come true in time.
package struct NeverHappened: Error, CustomStringConvertible {
    package let description: String
}

/// Waits until a condition of the world outside (a database, a process, a broker) is true: the one place in the tests
/// that looks again and again. It waits as long as ``Patience`` allows.
///
/// - Throws: ``NeverHappened`` with `what` when it is not true in time; what the condition throws.
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
