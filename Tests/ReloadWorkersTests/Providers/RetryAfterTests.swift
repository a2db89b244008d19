// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import ReloadWorkers

struct RetryAfterTests {
    /// Sun, 06 Nov 1994 08:49:37 GMT.
    private static let time = Timestamp(microseconds: 784_111_777_000_000)

    @Test func aDateIsRead() {
        #expect(ProviderClient.date("Sun, 06 Nov 1994 08:49:37 GMT") == Self.time)
    }

    @Test(arguments: [
        ("120", 120), ("0", 0), (" 7\t", 7), ("Sun, 06 Nov 1994 08:51:37 GMT", 120),
        ("Sat, 05 Nov 1994 08:49:37 GMT", 0),
    ])
    func whatItSays(text: String, seconds: Int) {
        #expect(ProviderClient.retryAfter(text, date: nil, now: Self.time) == .seconds(seconds))
    }

    @Test(arguments: [
        "", " ", "-1", "+5", "1.5", "5s", "soon", "Sun, 06 Nov 1994 08:49:37", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT", "Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 nov 1994 08:49:37 GMT",
        "06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Nov 1994 08:49 GMT", "١٢",
    ])
    func whatSaysNothing(text: String) {
        #expect(ProviderClient.retryAfter(text, date: nil, now: Self.time) == nil)
    }

    @Test func theProvidersOwnClockIsMeant() {
        // The provider's clock is an hour behind.
        let delay = ProviderClient.retryAfter(
            "Sun, 06 Nov 1994 07:51:37 GMT", date: "Sun, 06 Nov 1994 07:49:37 GMT", now: Self.time)
        #expect(delay == .seconds(120))
        #expect(
            ProviderClient.retryAfter("Sun, 06 Nov 1994 08:50:37 GMT", date: "nonsense", now: Self.time) == .seconds(60)
        )
    }

    @Test func aVeryLongTimeIsOne() {
        #expect(
            ProviderClient.retryAfter("99999999999999999999999999", date: nil, now: Self.time)
                == .seconds(3_155_760_000))
        #expect(ProviderClient.retryAfter("9223372036854775807", date: nil, now: Self.time) == .seconds(3_155_760_000))
    }
}
