import Testing

@testable import ReloadWorkers

struct WebhookSignatureTests {
    /// The example in the tests of Standard Webhooks' libraries; its secret is
    /// `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`.
    @Test func knownVector() {
        let secret: [UInt8] = [
            0x31, 0xF2, 0x90, 0xF6, 0xBF, 0x06, 0x29, 0x8A, 0xAB, 0x4F, 0x08, 0xD4, 0x3C, 0x3F, 0x08, 0x2C,
            0xF6, 0x48, 0xA3, 0x62, 0xDA, 0x2D, 0xA4, 0xB0,
        ]
        let signature = WebhookSignature(secrets: [secret]).sign(
            id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330,
            body: Array(#"{"test": 2432232314}"#.utf8))
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test func everythingSignedCounts() {
        let signature = WebhookSignature(secrets: [[1]])
        let signed = signature.sign(id: "a", timestamp: 1, body: [1])
        #expect(signed != signature.sign(id: "b", timestamp: 1, body: [1]))
        #expect(signed != signature.sign(id: "a", timestamp: 2, body: [1]))
        #expect(signed != signature.sign(id: "a", timestamp: 1, body: [2]))
        #expect(signed != WebhookSignature(secrets: [[2]]).sign(id: "a", timestamp: 1, body: [1]))
    }

    @Test func everySecretSignsTheNewestFirst() {
        let signatures = [[1], [2]].map { WebhookSignature(secrets: [$0]).sign(id: "a", timestamp: 1, body: [1]) }
        let both = WebhookSignature(secrets: [[1], [2]]).sign(id: "a", timestamp: 1, body: [1])
        #expect(both == signatures.joined(separator: " "))
    }

    @Test func idsDiffer() {
        let ids = (0..<100).map { _ in WebhookSignature.makeID() }
        #expect(Set(ids).count == 100)
        #expect(ids.allSatisfy { $0.hasPrefix("msg_") && $0.utf8.count == 36 })
    }
}
