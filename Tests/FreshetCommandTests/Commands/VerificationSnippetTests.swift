// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import SampleProvider

/// The code in deploy/providers.md for providers, run with Freshet's signatures.
@Suite(.timeLimit(.patience))
struct VerificationSnippetTests {
    /// Code of deploy/providers.md.
    static let python = #"""
        import base64, hashlib, hmac, time

        def verify(secret, headers, body, tolerance=300):
            """True if `body` (bytes) was signed with `secret` ("whsec_...") not long ago."""
            key = base64.b64decode(secret.removeprefix("whsec_"))
            id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
            if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > tolerance:
                return False
            signed = id.encode() + b"." + timestamp.encode() + b"." + body
            expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
            # Several signatures, separated by spaces, while a secret is being replaced.
            return any(
                hmac.compare_digest(expected, part[3:].encode())
                for part in headers.get("webhook-signature", "").split(" ") if part.startswith("v1,"))
        """#

    @Test("The document contains this code")
    func documented() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let document = try String(contentsOf: root.appendingPathComponent("deploy/providers.md"), encoding: .utf8)
        #expect(document.contains(Self.python))
        let swift = try #require(document.firstRange(of: "func verify(_ body: Data")).lowerBound
        let end = try #require(document[swift...].firstRange(of: "\n```")).lowerBound
        let source = try String(contentsOfFile: #filePath, encoding: .utf8)
        let indented = document[swift..<end].split(separator: "\n").map { "    \($0)" }.joined(separator: "\n")
        #expect(source.contains(indented))
    }

    private static let body = Array(#"{"requests":[]}"#.utf8)

    /// Whether a Python snippet accepts the request; nil when there is no Python.
    private func isTaken(
        secret: SigningSecret, signedWith secrets: [SigningSecret], at time: Int64, body: [UInt8] = body
    )
        throws -> Bool?
    {
        let signature = ProviderClient.signature(
            secrets: secrets.map(\.bytes), id: "msg_1", timestamp: time, body: Self.body)
        let call = """

            import sys
            headers = {"webhook-id": "msg_1", "webhook-timestamp": "\(time)", "webhook-signature": "\(signature)"}
            print("taken" if verify("\(secret.exposed)", headers, sys.stdin.buffer.read()) else "refused")
            """
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.python + call]
        let (input, output) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        input.fileHandleForWriting.write(Data(body))
        try input.fileHandleForWriting.close()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus != 127 else { return nil }
        return text.hasPrefix("taken")
    }

    private static let hasPython: Bool = {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", "-c", "import hmac; ''.removeprefix('')"]
        process.standardError = FileHandle.nullDevice
        do { try process.run() } catch { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }()

    @Test(.enabled(if: hasPython, "python3 (3.9 or later) is not installed"))
    func pythonOfTheDocument() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let old = try #require(SigningSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let new = try #require(SigningSecret("whsec_" + String(repeating: "AAAA", count: 8)))
        #expect(try isTaken(secret: old, signedWith: [old], at: now) == true)
        // During a rotation, providers with either secret accept the request.
        #expect(try isTaken(secret: old, signedWith: [new, old], at: now) == true)
        #expect(try isTaken(secret: new, signedWith: [new, old], at: now) == true)
        #expect(try isTaken(secret: old, signedWith: [new], at: now) == false)
        #expect(try isTaken(secret: old, signedWith: [old], at: now - 400) == false)
        #expect(try isTaken(secret: old, signedWith: [old], at: now + 400) == false)
        #expect(try isTaken(secret: old, signedWith: [old], at: now, body: Self.body + [32]) == false)
    }

    /// Code of deploy/providers.md.
    func verify(_ body: Data, _ headers: [String: String], secret: String, tolerance: TimeInterval = 300) -> Bool {
        guard secret.hasPrefix("whsec_"), let key = Data(base64Encoded: String(secret.dropFirst(6))),
            let id = headers["webhook-id"], let signatures = headers["webhook-signature"],
            let timestamp = headers["webhook-timestamp"], let seconds = Int64(timestamp),
            abs(Date().timeIntervalSince1970 - TimeInterval(seconds)) <= tolerance
        else { return false }
        let signed = Data("\(id).\(timestamp).".utf8) + body
        // Several signatures, separated by spaces, while a secret is being replaced.
        return signatures.split(separator: " ").contains { part in
            guard part.hasPrefix("v1,"), let code = Data(base64Encoded: String(part.dropFirst(3))) else { return false }
            return HMAC<SHA256>.isValidAuthenticationCode(
                code, authenticating: signed, using: SymmetricKey(data: key))
        }
    }

    @Test func swiftOfTheDocument() throws {
        let now = Int64(Date().timeIntervalSince1970)
        let old = try #require(SigningSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let new = try #require(SigningSecret("whsec_" + String(repeating: "AAAA", count: 8)))
        func isTaken(
            _ secret: SigningSecret, signedWith secrets: [SigningSecret], at time: Int64, body: [UInt8] = Self.body
        ) -> Bool {
            let signature = ProviderClient.signature(
                secrets: secrets.map(\.bytes), id: "msg_1", timestamp: time, body: Self.body)
            return verify(
                Data(body),
                ["webhook-id": "msg_1", "webhook-timestamp": "\(time)", "webhook-signature": signature],
                secret: secret.exposed)
        }
        #expect(isTaken(old, signedWith: [old], at: now))
        #expect(isTaken(old, signedWith: [new, old], at: now) && isTaken(new, signedWith: [new, old], at: now))
        #expect(!isTaken(old, signedWith: [new], at: now))
        #expect(!isTaken(old, signedWith: [old], at: now - 400) && !isTaken(old, signedWith: [old], at: now + 400))
        #expect(!isTaken(old, signedWith: [old], at: now, body: Self.body + [32]))
        #expect(!verify(Data(Self.body), [:], secret: old.exposed))
    }

    @Test func theSampleProviderTakesEitherSignature() throws {
        let old = try #require(SigningSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
        let new = try #require(SigningSecret("whsec_" + String(repeating: "AAAA", count: 8)))
        let signature = ProviderClient.signature(
            secrets: [new.bytes, old.bytes], id: "msg_1", timestamp: 1_700_000_000, body: Self.body)
        #expect(signature.split(separator: " ").count == 2)
        for secret in [old, new] {
            let problem = SampleRequest.signatureProblem(
                id: "msg_1", timestamp: "1700000000", signature: signature, body: Self.body,
                key: SymmetricKey(data: secret.bytes), now: Timestamp(microseconds: 1_700_000_000_000_000))
            #expect(problem == nil)
        }
    }
}
