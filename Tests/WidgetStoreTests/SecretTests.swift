// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Rotating an app's signing secret never leaves its provider without a valid one", .timeLimit(.patience))
struct SecretTests {
    private static let app = TestKinds.app

    private func secrets(_ store: TestStore) async throws -> [[UInt8]] {
        try await store.directory().apps[Self.app]?.signingSecrets ?? []
    }

    @Test("While two secrets are valid both sign, the newest first")
    func both() async throws {
        try await withStore { store in
            let old = try await secrets(store)
            #expect(old.count == 1)
            let rotation = try #require(await store.store.rotateSecret(app: Self.app, to: [1, 2]))
            #expect(rotation.isChanged && rotation.secrets.previousExpiresAt != nil)
            #expect(try await secrets(store) == [[1, 2]] + old)
            // Another app's secrets are separate.
            #expect(try await store.directory().apps[TestKinds.otherApp]?.signingSecrets.count == 1)
        }
    }

    @Test("Only the database's clock ends the old secret")
    func expiry() async throws {
        try await withStore { store in
            _ = try await store.store.rotateSecret(app: Self.app, to: [1], keepingOld: .seconds(3_600))
            #expect(
                try await store.integer(
                    "SELECT extract(epoch FROM expires_at - replaced_at)::bigint FROM previous_secret") == 3_600)
            try await store.sql("UPDATE previous_secret SET expires_at = now() - interval '1 s'")
            #expect(try await secrets(store) == [[1]])
            #expect(try await store.pool.query(Statements.readSecrets(app: Self.app)).first?.previousExpiresAt == nil)
            #expect(try await !store.store.endSecretRotation(app: Self.app), "the rotation had already ended")
        }
    }

    @Test("No old secret is kept without an overlap, or when the secret is unchanged")
    func nothingKept() async throws {
        try await withStore { store in
            _ = try await store.store.rotateSecret(app: Self.app, to: [1], keepingOld: .zero)
            #expect(try await secrets(store) == [[1]])
            _ = try await store.store.rotateSecret(app: Self.app, to: [2])
            let again = try #require(await store.store.rotateSecret(app: Self.app, to: [2], keepingOld: .zero))
            #expect(!again.isChanged)
            #expect(try await secrets(store) == [[2], [1]], "the rotation under way continues")
        }
    }

    @Test("A rotation can be ended, reverted and followed by another")
    func ending() async throws {
        try await withStore { store in
            _ = try await store.store.rotateSecret(app: Self.app, to: [1])
            #expect(try await store.store.endSecretRotation(app: Self.app))
            #expect(try await !store.store.endSecretRotation(app: Self.app))
            #expect(try await secrets(store) == [[1]])
            _ = try await store.store.rotateSecret(app: Self.app, to: [2])
            for secret: [UInt8] in [[1], [3]] {
                await #expect(throws: RotationConflict.self, "the provider may use the previous secret") {
                    try await store.store.rotateSecret(app: Self.app, to: secret)
                }
            }
            #expect(try await secrets(store) == [[2], [1]])
            #expect(try await store.store.endSecretRotation(app: Self.app))
            _ = try await store.store.rotateSecret(app: Self.app, to: [1])
            #expect(try await secrets(store) == [[1], [2]])
            #expect(try await store.store.rotateSecret(app: "no.such.app", to: [1]) == nil)
        }
    }

    @Test("A manifest with a new secret keeps the previous one valid; with the same secret it changes nothing")
    func manifest() async throws {
        try await withStore { store in
            let first = try await secrets(store)
            func apply(_ secret: [UInt8]?) async throws {
                _ = try await store.store.apply(
                    TestKinds.apps(), secrets: secret.map { [Self.app: $0] } ?? [:], freshSecret: { [9] })
            }
            try await apply([4])
            #expect(try await secrets(store) == [[4]] + first)
            #expect(
                try await store.store.replacedSecrets([Self.app: [4], TestKinds.otherApp: [5]]) == [TestKinds.otherApp])
            try await apply([4])
            try await apply(nil)
            await #expect(throws: RotationConflict.self) { try await apply([5]) }
            #expect(try await secrets(store) == [[4]] + first)
        }
    }
}
