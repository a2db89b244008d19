// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@Suite("Answers of Apple's push notification service (rules, G)")
struct APNsAnswerTests {
    /// Every answer that Apple documents, with Freshet's reaction.
    static let table: [(status: Int, reason: String, effect: APNsAnswer.Effect)] = [
        (200, "", .accepted),
        (400, "BadCollapseId", .broken), (400, "BadDeviceToken", .badToken), (400, "BadExpirationDate", .broken),
        (400, "BadMessageId", .broken), (400, "BadPriority", .broken), (400, "BadTopic", .wrongKey),
        (400, "DeviceTokenNotForTopic", .wrongDevice), (400, "DuplicateHeaders", .broken),
        (400, "IdleTimeout", .slowTopic), (400, "InvalidPushType", .broken), (400, "MissingDeviceToken", .broken),
        (400, "MissingTopic", .wrongKey), (400, "PayloadEmpty", .broken), (400, "TopicDisallowed", .wrongKey),
        (403, "BadCertificate", .wrongKey), (403, "BadCertificateEnvironment", .wrongKey),
        (403, "BadEnvironmentKeyIdInToken", .wrongKey), (403, "ExpiredProviderToken", .renew),
        (403, "Forbidden", .wrongKey), (403, "InvalidProviderToken", .wrongKey),
        (403, "MissingProviderToken", .wrongKey), (403, "UnrelatedKeyIdInToken", .wrongKey),
        (404, "BadPath", .broken), (405, "MethodNotAllowed", .broken), (410, "ExpiredToken", .forget),
        (410, "Unregistered", .forget), (413, "PayloadTooLarge", .broken),
        (429, "TooManyProviderTokenUpdates", .slowTopic), (429, "TooManyRequests", .slowDevice),
        (500, "InternalServerError", .slowTopic), (503, "ServiceUnavailable", .slowTopic),
        (503, "Shutdown", .slowTopic),
        // An undocumented answer.
        (200, "Anything", .accepted), (400, "", .broken), (418, "Teapot", .broken), (502, "", .slowTopic),
    ]

    @Test("Each answer has its effect", arguments: table)
    func effect(_ row: (status: Int, reason: String, effect: APNsAnswer.Effect)) {
        #expect(APNsAnswer(status: row.status, reason: row.reason).effect == row.effect)
    }

    @Test("A dead token is deleted as of the time that the service reports")
    func forget() {
        let since = Timestamp(microseconds: 5)
        #expect(APNsAnswer(status: 410, reason: "Unregistered", since: since).verdict == .forget(since: since))
    }

    @Test("An unknown token is not deleted because of one answer")
    func badToken() {
        #expect(APNsAnswer(status: 400, reason: "BadDeviceToken").verdict == .retry(after: .seconds(300)))
    }

    @Test("The service's delay is respected; an operator's error rests for minutes")
    func delays() {
        let delay = Duration.seconds(7)
        #expect(APNsAnswer(status: 429, reason: "TooManyRequests", retryAfter: delay).verdict == .retry(after: delay))
        #expect(APNsAnswer(status: 503, retryAfter: delay).verdict == .rest(after: delay))
        #expect(APNsAnswer(status: 400, reason: "DeviceTokenNotForTopic").verdict == .retry(after: .seconds(300)))
        #expect(APNsAnswer(status: 403, reason: "InvalidProviderToken").verdict == .rest(after: .seconds(300)))
    }

    @Test(
        "Topics of widget pushes",
        arguments: [
            ("com.example.bank.push-type.widgets", true), ("com.example.bank", false), (".push-type.widgets", false),
            ("com.example/bank.push-type.widgets", false), ("", false),
        ])
    func topics(_ topic: String, _ isValid: Bool) {
        #expect((APNsAddress.problem(ofTopic: topic) == nil) == isValid)
    }
}
