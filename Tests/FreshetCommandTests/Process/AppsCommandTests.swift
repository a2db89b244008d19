// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetAPI
import WidgetModel
import WidgetStore

@testable import FreshetService

@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct AppsCommandTests {
    private static let app = TestKinds.app

    private func freshet(
        _ store: TestStore, _ arguments: String...
    ) async throws -> (status: Int32, out: String, err: String) {
        try await freshet(store, arguments)
    }

    private func freshet(
        _ store: TestStore, _ arguments: [String]
    ) async throws -> (status: Int32, out: String, err: String) {
        try await FreshetProcess.run(
            ["apps"] + arguments, environment: ["FRESHET_POSTGRES_URL": store.connectionString], input: "")
    }

    private func secrets(_ store: TestStore) async throws -> [[UInt8]] {
        try await store.directory().apps[Self.app]?.signingSecrets ?? []
    }

    @Test("A generated secret is printed once, and the previous one stays valid until the rotation is ended")
    func generated() async throws {
        try await withStore { store in
            let old = try await secrets(store)
            let rotated = try await freshet(store, "rotate-secret", "--app", Self.app, "--generate", "--keep-old", "2h")
            #expect(rotated.status == 0)
            let printed = try #require(SigningSecret(rotated.out))
            #expect(try await secrets(store) == [printed.bytes] + old)
            let shown = try await freshet(store, "list", "--app", Self.app)
            #expect(shown.out.contains("VALID UNTIL") && shown.out.contains("  20"))
            let json = try JSONValue.parse(try await freshet(store, "list", "--app", Self.app, "--json").out)
            let texts = [rotated.err, shown.out, String(decoding: json.encoded, as: UTF8.self)]
            #expect(texts.allSatisfy { !$0.contains("whsec_") })

            #expect(try await freshet(store, "end-rotation", "--app", Self.app).out.contains("not valid any more"))
            #expect(try await secrets(store) == [printed.bytes])
            #expect(try await freshet(store, "end-rotation", "--app", Self.app).out.contains("no previous secret"))
            #expect(!(try await freshet(store, "list").out.contains("  20")))
        }
    }

    @Test("A secret from a file is not printed")
    func fromFile() async throws {
        try await withStore { store in
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("secret-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: file) }
            let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
            try Data((text + "\n").utf8).write(to: file)
            let first = try await freshet(
                store, "rotate-secret", "--app", Self.app, "--secret-file", file.path, "--keep-old", "0s", "--json")
            #expect(first.status == 0 && !first.out.contains("whsec_") && !first.err.contains("whsec_"))
            let changed = try JSONValue.parse(first.out)["changed"]
            #expect(changed == true)
            #expect(try await secrets(store) == [SigningSecret(text)?.bytes ?? []])
            let again = try await freshet(store, "rotate-secret", "--app", Self.app, "--secret-file", file.path)
            #expect(again.out.contains("has this secret already"))
            try Data("hunter2".utf8).write(to: file)
            let wrong = try await freshet(store, "rotate-secret", "--app", Self.app, "--secret-file", file.path)
            #expect(wrong.status == 1 && !wrong.err.contains("hunter2") && wrong.err.contains("whsec_ and the base64"))
        }
    }

    @Test("Errors are reported")
    func wrong() async throws {
        try await withStore { store in
            let cases: [(status: Int32, arguments: [String])] = [
                (1, ["rotate-secret", "--app", "no.such.app", "--generate"]), (1, ["list", "--app", "no.such.app"]),
                (1, ["end-rotation", "--app", "no.such.app"]), (64, ["rotate-secret", "--app", Self.app]),
                (64, ["rotate-secret", "--app", Self.app, "--generate", "--secret-file", "x"]),
                (64, ["rotate-secret", "--app", Self.app, "--generate", "--keep-old", "soon"]),
            ]
            for (status, arguments) in cases {
                let result = try await freshet(store, arguments)
                #expect(result.status == status, "\(arguments)")
            }
        }
    }
}
