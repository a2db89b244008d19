// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import FreshetService

@Suite("Waiting for a server's port", .timeLimit(.patience))
struct ListeningPortTests {
    @Test("A cancelled waiter leaves; others get the port, or an error if the server never listens")
    func waiting() async throws {
        let listening = ListeningPort()
        let waiting = Task { try await listening.wait() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        async let other = listening.wait()
        listening.listens(on: 80)
        #expect(try await other == 80)
        #expect(try await listening.wait() == 80)
        listening.closes()
        await #expect(throws: CancellationError.self) { try await listening.wait() }
    }

    @Test("A service that ends before it listens closes its port")
    func failed() async throws {
        let port = ListeningPort()
        try await port.service("test", at: "nowhere", BackgroundService("test") {}).run()
        await #expect(throws: CancellationError.self) { try await port.wait() }
    }
}
