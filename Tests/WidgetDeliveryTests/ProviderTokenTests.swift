// SPDX-License-Identifier: Apache-2.0

import JWTKit
import Testing
import WidgetModel

@testable import WidgetDelivery

@Suite("Provider tokens")
struct ProviderTokenTests {
    private struct Claims: JWTPayload {
        let iss: String
        let iat: Int64

        func verify(using algorithm: some JWTAlgorithm) throws {}
    }

    private static func token(_ key: ES256PrivateKey, _ clock: TestClock) -> ProviderToken {
        ProviderToken(
            APNsKey(teamID: "TEAM", keyID: "KEY", privateKeyPEM: key.pemRepresentation), now: { clock.now })
    }

    @Test("A token is signed with the app's key and names its team")
    func signed() async throws {
        let (key, clock) = (ES256PrivateKey(), TestClock())
        let text = try await Self.token(key, clock).text()
        let verifier = JWTKeyCollection()
        await verifier.add(ecdsa: key.publicKey, kid: "KEY")
        let claims = try await verifier.verify(text, as: Claims.self)
        #expect(claims.iss == "TEAM" && claims.iat == clock.now.microseconds / 1_000_000)
    }

    @Test("A token is used for 50 minutes; a refused one is replaced after 20 minutes at the earliest")
    func lifetime() async throws {
        let clock = TestClock()
        let token = Self.token(ES256PrivateKey(), clock)
        let first = try await token.text()
        clock.advance(by: .seconds(19 * 60))
        #expect(try await token.text(replacing: first) == first)
        clock.advance(by: .seconds(2 * 60))
        let second = try await token.text(replacing: first)
        #expect(second != first)
        // The refusal of a token that is already replaced has no effect.
        clock.advance(by: .seconds(30 * 60))
        #expect(try await token.text(replacing: first) == second)
        clock.advance(by: .seconds(20 * 60))
        #expect(try await token.text() != second)
    }

    @Test("Concurrent callers share one token, also during its renewal")
    func concurrent() async throws {
        let clock = TestClock()
        let token = Self.token(ES256PrivateKey(), clock)
        var all: Set<String> = []
        for round in 1...2 {
            try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<100 { group.addTask { try await token.text() } }
                for try await text in group { all.insert(text) }
            }
            #expect(all.count == round)
            clock.advance(by: .seconds(51 * 60))
        }
    }

    @Test("A token with a time in the future, after the clock was set back, is replaced")
    func clockWentBack() async throws {
        let clock = TestClock()
        let token = Self.token(ES256PrivateKey(), clock)
        let first = try await token.text()
        clock.advance(by: .seconds(-3_600))
        #expect(try await token.text() != first)
    }

    @Test("An unusable key is an error that names the key")
    func unusable() async throws {
        let bad = APNsKey(teamID: "T", keyID: "K", privateKeyPEM: "nonsense")
        #expect(!bad.isUsable)
        await #expect { try await ProviderToken(bad).text() } throws: {
            "\($0)".contains("\"K\"") && !"\($0)".contains("nonsense")
        }
    }
}
