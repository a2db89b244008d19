// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Waiting

@Suite("Signals", .timeLimit(.patience))
struct SignalTests {
    @Test("A signal after the version is not lost, and several signals wake once")
    func past() async throws {
        let signal = Signal()
        let version = signal.version
        signal.signal()
        signal.signal()
        try await signal.wait(past: version)
        let later = signal.version
        #expect(try await !signal.wait(past: later, timeout: .milliseconds(1), clock: ContinuousClock()))
    }

    @Test("Every waiter is woken")
    func everyone() async throws {
        let signal = Signal()
        let version = signal.version
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await signal.wait(past: version) } }
            signal.signal()
            try await group.waitForAll()
        }
    }

    @Test("Cancellation ends the wait")
    func cancellation() async throws {
        let signal = Signal()
        let waiting = Task { try await signal.wait(past: signal.version) }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }

    @Test("A time limit returns the result in time, nothing later, and an error at once")
    func limit() async throws {
        struct Failure: Error {}
        #expect(try await withTimeLimit(.seconds(3_600)) { 7 } == 7)
        #expect(try await withTimeLimit(.milliseconds(1)) { try await Signal().wait(past: 0) } == nil)
        await #expect(throws: Failure.self) { try await withTimeLimit(.seconds(3_600)) { throw Failure() } }
    }
}
