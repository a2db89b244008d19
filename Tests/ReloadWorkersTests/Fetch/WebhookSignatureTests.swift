// SPDX-License-Identifier: Apache-2.0

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
        let signature = ProviderClient.signature(
            secrets: [secret], id: "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: 1_614_265_330,
            body: Array(#"{"test": 2432232314}"#.utf8))
        #expect(signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
    }

    @Test func everythingSignedCounts() {
        func sign(_ secret: UInt8 = 1, id: String = "a", timestamp: Int64 = 1, body: [UInt8] = [1]) -> String {
            ProviderClient.signature(secrets: [[secret]], id: id, timestamp: timestamp, body: body)
        }
        #expect(sign() != sign(id: "b"))
        #expect(sign() != sign(timestamp: 2))
        #expect(sign() != sign(body: [2]))
        #expect(sign() != sign(2))
    }

    @Test func everySecretSignsTheNewestFirst() {
        let signatures = [[1], [2]].map { ProviderClient.signature(secrets: [$0], id: "a", timestamp: 1, body: [1]) }
        let both = ProviderClient.signature(secrets: [[1], [2]], id: "a", timestamp: 1, body: [1])
        #expect(both == signatures.joined(separator: " "))
    }

    @Test func idsDiffer() {
        let ids = (0..<100).map { _ in ProviderClient.makeMessageID() }
        #expect(Set(ids).count == 100)
        #expect(ids.allSatisfy { $0.hasPrefix("msg_") && $0.utf8.count == 36 })
    }
}
