// SPDX-License-Identifier: Apache-2.0

import Logging
import TestSupport
import Testing
import WidgetAPI
import WidgetModel

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

    @Test("An error of a server's data is a failure, and only one of its settings a configuration error")
    func statuses() async throws {
        let server = ListeningPort().service(
            "test", at: "nowhere", BackgroundService("test") { throw ModelError(message: "is not a time") })
        let failure = try #require(await #expect(throws: ModelError.self) { try await server.run() })
        #expect(CommandFailure(explaining: failure)?.status == .failure)
        let keys = TokenKeyStore(logger: Logger(label: "test")) { try await TokenKeys.read("/nowhere/keys.json") }
        let problem = try #require(
            await #expect(throws: CommandFailure.self) { try await keys.load(from: "api.keys") })
        #expect(problem.status == .configuration && problem.message.hasPrefix("api.keys: "))
    }
}
