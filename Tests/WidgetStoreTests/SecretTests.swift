import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("An app's signing secret is replaced without a moment in which its provider knows none", .timeLimit(.patience))
struct SecretTests {
    private static let app = TestKinds.app

    private func secrets(_ store: TestStore) async throws -> [[UInt8]] {
        try await store.directory().apps[Self.app]?.signingSecrets ?? []
    }

    @Test("While two are valid both sign, the newest first")
    func both() async throws {
        try await withStore { store in
            let old = try await secrets(store)
            #expect(old.count == 1)
            let rotation = try #require(await store.store.rotateSecret(app: Self.app, to: [1, 2]))
            #expect(rotation.isChanged && rotation.secrets.previousExpiresAt != nil)
            #expect(try await secrets(store) == [[1, 2]] + old)
            // Another app's secrets are its own.
            #expect(try await store.directory().apps[TestKinds.otherApp]?.signingSecrets.count == 1)
        }
    }

    @Test("Only the database's clock ends the old one")
    func expiry() async throws {
        try await withStore { store in
            _ = try await store.store.rotateSecret(app: Self.app, to: [1], keepingOld: .seconds(3_600))
            #expect(
                try await store.integer(
                    "SELECT extract(epoch FROM expires_at - replaced_at)::bigint FROM previous_secret") == 3_600)
            try await store.sql("UPDATE previous_secret SET expires_at = now() - interval '1 s'")
            #expect(try await secrets(store) == [[1]])
            #expect(try await store.pool.query(Statements.readSecrets(app: Self.app)).first?.previousExpiresAt == nil)
            #expect(try await !store.store.endSecretRotation(app: Self.app), "it was over already")
        }
    }

    @Test("Nothing is kept when nothing is to be, or when the secret is the same")
    func nothingKept() async throws {
        try await withStore { store in
            _ = try await store.store.rotateSecret(app: Self.app, to: [1], keepingOld: .zero)
            #expect(try await secrets(store) == [[1]])
            _ = try await store.store.rotateSecret(app: Self.app, to: [2])
            let again = try #require(await store.store.rotateSecret(app: Self.app, to: [2], keepingOld: .zero))
            #expect(!again.isChanged)
            #expect(try await secrets(store) == [[2], [1]], "the rotation under way goes on")
        }
    }

    @Test("A rotation can be ended, taken back, and followed by the next")
    func ending() async throws {
        try await withStore { store in
            _ = try await store.store.rotateSecret(app: Self.app, to: [1])
            #expect(try await store.store.endSecretRotation(app: Self.app))
            #expect(try await !store.store.endSecretRotation(app: Self.app))
            #expect(try await secrets(store) == [[1]])
            _ = try await store.store.rotateSecret(app: Self.app, to: [2])
            _ = try await store.store.rotateSecret(app: Self.app, to: [1])
            #expect(try await secrets(store) == [[1], [2]])
            _ = try await store.store.rotateSecret(app: Self.app, to: [3])
            #expect(try await secrets(store) == [[3], [1]], "two at a time, no more")
            #expect(try await store.store.rotateSecret(app: "no.such.app", to: [1]) == nil)
        }
    }

    @Test("A manifest with another secret keeps the one before valid beside it; one with the same changes nothing")
    func manifest() async throws {
        try await withStore { store in
            let first = try await secrets(store)
            func apply(_ secret: [UInt8]?) async throws {
                _ = try await store.store.apply(
                    TestKinds.apps(), secrets: secret.map { [Self.app: $0] } ?? [:], freshSecret: { [9] })
            }
            try await apply([4])
            #expect(try await secrets(store) == [[4]] + first)
            try await apply([4])
            try await apply(nil)
            #expect(try await secrets(store) == [[4]] + first)
        }
    }
}
