// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider

@Suite("Webhook signatures", .timeLimit(.patience))
struct WebhookSignatureTests {
    // The example of the Standard Webhooks specification.
    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    private static let right = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    private static let body = #"{"test": 2432232314}"#
    private static let time: Int64 = 1_614_265_330

    private func problem(
        id: String? = "msg_p5jXN8AQM9LWM0D4loKWxJek", timestamp: String? = "1614265330", signature: String? = right,
        body: String = body, secret: String = secret, now: Int64 = time
    ) throws -> String? {
        let key = SymmetricKey(data: try #require(Data(base64Encoded: String(secret.dropFirst(6)))))
        return SampleRequest.signatureProblem(
            id: id, timestamp: timestamp, signature: signature, body: Array(body.utf8), key: key,
            now: Timestamp(microseconds: now * 1_000_000))
    }

    @Test(arguments: [right, "v1,AAAA \(right)", "v1a,AAAA \(right) v1,?", "v2,x \(right)"])
    func rightSignatureIsTaken(signature: String) throws {
        #expect(try problem(signature: signature) == nil)
    }

    @Test(arguments: [-300, 0, 300])
    func clocksMayDiffer(by seconds: Int64) throws {
        #expect(try problem(now: Self.time + seconds) == nil)
    }

    @Test("A missing header is named") func missing() throws {
        let problem = "webhook-id, webhook-timestamp or webhook-signature is missing"
        #expect(try self.problem(id: nil) == problem)
        #expect(try self.problem(timestamp: nil) == problem)
        #expect(try self.problem(signature: nil) == problem)
    }

    @Test(arguments: ["yesterday", "9223372036854775807", "-1"])
    func timestampThatIsNoTimeIsRefused(timestamp: String) throws {
        #expect(try problem(timestamp: timestamp) == "webhook-timestamp is not a number of seconds")
    }

    @Test(arguments: [301, -301])
    func otherTimeIsRefused(distance: Int64) throws {
        #expect(try problem(now: Self.time + distance) == "webhook-timestamp is more than five minutes off")
    }

    @Test("A signature of anything else, or by another secret, is refused") func signedDifferently() throws {
        let problem = "no signature matches"
        #expect(try self.problem(id: "msg_other") == problem)
        #expect(try self.problem(timestamp: "1614265331") == problem)
        #expect(try self.problem(body: Self.body + " ") == problem)
        #expect(try self.problem(secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA") == problem)
    }

    @Test(arguments: ["", "v1,", String(right.dropFirst(3)), right.replacing("v1", with: "v1a")])
    func otherSignatureIsRefused(signature: String) throws {
        #expect(try problem(signature: signature) == "no signature matches")
    }
}
