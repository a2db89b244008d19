// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@Suite("Signing secrets", .timeLimit(.patience))
struct SigningSecretTests {
    @Test(arguments: [
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 24), ("  whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", 24),
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", nil), ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa", nil),
        ("whsec_not base64 at all, but long enough", nil), ("", nil), ("whsec_", nil),
        ("whsec_" + String(repeating: "AAAA", count: 21) + "AA==", 64),
        ("whsec_" + String(repeating: "AAAA", count: 22), nil),
    ])
    func secretsHaveOneForm(text: String, bytes: Int?) {
        #expect(SigningSecret(text)?.bytes.count == bytes)
    }

    @Test func newSecretsHaveTheFormAndDiffer() {
        let secrets = (0..<16).map { _ in SigningSecret.random() }
        #expect(Set(secrets.map(\.exposed)).count == 16)
        #expect(secrets.allSatisfy { SigningSecret($0.exposed) == $0 && $0.bytes.count == 32 })
    }
}
