// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import WidgetStore
@testable import freshet

@Suite("The device in an explanation")
struct DeviceSentencesTests {
    private static let now = Timestamp(microseconds: 1_790_000_000_000_000)

    private func sentences(
        waiting: Int64 = 0, next: Duration? = nil, tried: Duration? = nil, sent: Duration? = nil, answer: Int? = nil,
        reason: String? = nil, apnsID: String? = nil, fetched: Duration? = nil, revision: Int64? = nil
    ) -> [String] {
        func time(_ age: Duration?) -> Timestamp? { age.map { Self.now - $0 } }
        return Registration(
            user: "u", device: "d", channel: "apns", environment: "production", topic: nil, registeredAt: Self.now,
            waiting: waiting, nextAt: next.map { Self.now + $0 }, changedAt: nil, triedAt: time(tried),
            sentAt: time(sent), answer: answer, reason: reason, apnsID: apnsID, fetchedAt: time(fetched),
            fetchedRevision: revision,
            pushes: 0, answeredPushes: 0, pushLatencies: []
        ).sentences(storedRevision: 9, at: Self.now)
    }

    @Test("An accepted push and a later, refused attempt are told apart")
    func attempts() {
        #expect(
            sentences(
                waiting: 1, next: .seconds(5), tried: .seconds(10), sent: .seconds(120), answer: 503,
                reason: "Shutdown",
                apnsID: "EFDE-1")
                == [
                    "sent at 2026-09-21T14:11:20Z (2 min 0 s ago) by apns",
                    "last attempt at 2026-09-21T14:13:10Z (10 s ago): answered 503 Shutdown",
                    "apns-id EFDE-1",
                    "1 change waiting: to be sent at 2026-09-21T14:13:25Z (in 5.0 s)", "has fetched nothing yet",
                ])
        #expect(
            sentences(waiting: 2, tried: .seconds(10), answer: 0)
                == [
                    "never sent, by apns", "last attempt at 2026-09-21T14:13:10Z (10 s ago): not reached",
                    "2 changes waiting: its channel is disabled", "has fetched nothing yet",
                ])
    }

    @Test(
        "The revision that the device shows is compared with the stored one",
        arguments: [
            (nil, "has not fetched this timeline"), (7, "shows revision 7, older than the stored 9"),
            (9, "shows the stored revision"),
        ])
    func revisions(_ revision: Int64?, _ sentence: String) {
        #expect(
            sentences(tried: .seconds(60), sent: .seconds(60), answer: 200, fetched: .seconds(30), revision: revision)
                == [
                    "sent at 2026-09-21T14:12:20Z (1 min 0 s ago) by apns",
                    "fetched at 2026-09-21T14:12:50Z (30 s ago)", sentence,
                ])
    }
}
