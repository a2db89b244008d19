// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import ReloadWorkers

@Suite(.timeLimit(.patience))
struct HostResolverTests {
    /// A look-up that blocks its thread, like the system's, until the test opens it.
    private final class BlockingLookup: Sendable {
        let calls = Mutex(0)
        let started = Tally()
        private let gate = DispatchSemaphore(value: 0)

        func open() { gate.signal() }

        func callAsFunction(_ host: String) -> [IPAddress] {
            calls.withLock { $0 += 1 }
            started.add()
            gate.wait()
            gate.signal()
            return [IPAddress(v4: 1)]
        }
    }

    @Test func theSystemKnowsLocalhostAndNumbers() async throws {
        let resolver = HostResolver()
        #expect(try await resolver.addresses(of: "127.0.0.1") == [IPAddress(v4: 0x7F00_0001)])
        #expect(try await resolver.addresses(of: "::1").map(\.isPublic) == [false])
        #expect(try await !resolver.addresses(of: "localhost").isEmpty)
        await #expect(throws: IPAddress.LookupFailure.self) {
            try await resolver.addresses(of: "no-such-host.invalid")
        }
    }

    @Test func otherWritingsOfAnAddressAreThatAddress() async throws {
        let resolver = HostResolver()
        for text in ["127.1", "2130706433", "0x7f.0.0.1"] {
            let addresses = try? await resolver.addresses(of: text)
            #expect(addresses ?? [] == [] || addresses == [IPAddress(v4: 0x7F00_0001)])
        }
    }

    @Test func lookUpsOfOneNameAreOneAndRemembered() async throws {
        let lookup = BlockingLookup()
        let resolver = HostResolver { lookup($0) }
        try await withThrowingTaskGroup(of: [IPAddress].self) { group in
            for _ in 0..<20 { group.addTask { try await resolver.addresses(of: "host") } }
            try await lookup.started.reaches(1)
            lookup.open()
            for try await addresses in group { #expect(addresses == [IPAddress(v4: 1)]) }
        }
        _ = try await resolver.addresses(of: "host")
        #expect(lookup.calls.withLock { $0 } == 1)
    }

    @Test func whoStopsWaitingIsLetGoWhileTheLookUpHangs() async throws {
        let lookup = BlockingLookup()
        let resolver = HostResolver { lookup($0) }
        let waiting = Task { try await resolver.addresses(of: "host") }
        try await lookup.started.reaches(1)
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        lookup.open()
        #expect(try await resolver.addresses(of: "host") == [IPAddress(v4: 1)])
    }

    @Test func answersAndFailuresGrowOld() async throws {
        let calls = Mutex(0)
        let resolver = HostResolver(lifetime: .zero, failureLifetime: .zero) { host throws(IPAddress.LookupFailure) in
            let call = calls.withLock { calls in
                calls += 1
                return calls
            }
            if call == 1 { throw IPAddress.LookupFailure(message: "no servers") }
            return [IPAddress(v4: UInt32(call))]
        }
        await #expect(throws: IPAddress.LookupFailure.self) { try await resolver.addresses(of: "host") }
        #expect(try await resolver.addresses(of: "host") == [IPAddress(v4: 2)])
        #expect(try await resolver.addresses(of: "host") == [IPAddress(v4: 3)])
    }
}
