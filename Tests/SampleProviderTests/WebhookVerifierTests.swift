import Foundation
import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider

@Suite("Webhook signatures", .timeLimit(.patience))
struct WebhookVerifierTests {
    // The example of the Standard Webhooks specification.
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    private static let body = #"{"test": 2432232314}"#
    private static let time: Int64 = 1_614_265_330

    private func verify(
        id: String? = "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: String? = "1614265330", signature: String? = right,
        body: String = body, secret: String = secret, now: Int64 = time
    ) throws {
        let verifier = WebhookVerifier(key: try #require(Data(base64Encoded: String(secret.dropFirst(6)))).map { $0 })
        try verifier.verify(
            id: id, timestamp: timestamp, signature: signature, body: Array(body.utf8),
            now: Timestamp(microseconds: now * 1_000_000))
    }

    @Test(arguments: [right, "v1,AAAA \(right)", "v1a,AAAA \(right) v1,?", "v2,x \(right)"])
    func rightSignatureIsTaken(signature: String) {
        #expect(throws: Never.self) { try verify(signature: signature) }
    }

    @Test(arguments: [-300, 0, 300])
    func clocksMayDiffer(by seconds: Int64) {
        #expect(throws: Never.self) { try verify(now: Self.time + seconds) }
    }

    @Test func whatDiffersIsRefused() {
        typealias Refusal = WebhookVerifier.Refusal
        #expect(throws: Refusal.missingHeader) { try verify(id: nil) }
        #expect(throws: Refusal.missingHeader) { try verify(timestamp: nil) }
        #expect(throws: Refusal.missingHeader) { try verify(signature: nil) }
        #expect(throws: Refusal.invalidTimestamp) { try verify(timestamp: "yesterday") }
        #expect(throws: Refusal.invalidTimestamp) { try verify(timestamp: "9223372036854775807") }
        #expect(throws: Refusal.invalidTimestamp) { try verify(timestamp: "-1") }
        #expect(throws: Refusal.outdated) { try verify(now: Self.time + 301) }
        #expect(throws: Refusal.outdated) { try verify(now: Self.time - 301) }
        #expect(throws: Refusal.wrongSignature) { try verify(id: "msg_other") }
        #expect(throws: Refusal.wrongSignature) { try verify(timestamp: "1614265331") }
        #expect(throws: Refusal.wrongSignature) { try verify(body: Self.body + " ") }
        #expect(throws: Refusal.wrongSignature) { try verify(signature: "") }
        #expect(throws: Refusal.wrongSignature) { try verify(signature: "v1,") }
        #expect(throws: Refusal.wrongSignature) { try verify(signature: String(Self.right.dropFirst(3))) }
        #expect(throws: Refusal.wrongSignature) { try verify(signature: Self.right.replacing("v1", with: "v1a")) }
        #expect(throws: Refusal.wrongSignature) {
            try verify(secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")
        }
    }
}
