// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetStore

@Suite("Signals of work", .timeLimit(.patience))
struct WorkSignalTests {
    @Test("A signal after the mark is not lost, and several signals wake once")
    func past() async throws {
        let signal = WorkSignal()
        let mark = signal.version(of: .timelines)
        signal.signal()
        signal.signal()
        try await signal.wait(past: mark)
        let later = signal.version(of: .timelines)
        #expect(try await !signal.wait(past: later, timeout: .milliseconds(1), clock: ContinuousClock()))
    }

    @Test("Every waiter is woken")
    func everyone() async throws {
        let signal = WorkSignal()
        let mark = signal.version(of: .sweeps)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await signal.wait(past: mark) } }
            signal.signal(.sweeps)
            try await group.waitForAll()
        }
    }

    @Test("Types of work have separate signals")
    func sorts() async throws {
        let signal = WorkSignal()
        let mark = signal.version(of: .timelines)
        signal.signal(.sweeps)
        #expect(signal.version(of: .timelines) == mark)
        #expect(try await !signal.wait(past: mark, timeout: .milliseconds(1), clock: ContinuousClock()))
    }

    @Test("Cancellation ends the wait")
    func cancellation() async throws {
        let signal = WorkSignal()
        let waiting = Task { try await signal.wait(past: signal.version(of: .timelines)) }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }
}
