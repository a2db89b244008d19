// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@Suite("Limits of the pushes to a device")
struct DeliveryPolicyTests {
    private static let start = Timestamp(microseconds: 1_790_000_000_000_000)

    @Test("Two pushes are at least the spacing apart while the budget lasts")
    func spacing() {
        var ledger = BudgetLedger()
        let next = DeliveryPolicy().nextPush(after: Self.start, spending: &ledger)
        #expect(next == Self.start + .seconds(15))
    }

    @Test("A device that changes constantly gets exactly the budget in any 24 hours")
    func budget() {
        var policy = DeliveryPolicy()
        policy.dailyBudget = 24
        var (ledger, time, times) = (BudgetLedger(), Self.start, [Timestamp]())
        while time < Self.start + .seconds(3 * 86_400) {
            times.append(time)
            time = policy.nextPush(after: time, spending: &ledger)
        }
        for first in times.indices {
            let within = times[first...].prefix { $0 < times[first] + .seconds(86_400) }
            #expect(within.count <= policy.dailyBudget)
        }
        #expect(times.count > 2 * policy.dailyBudget)
    }

    @Test("A sealed token opens only for its own device, with any remaining key")
    func tokens() throws {
        let old = (id: "2026-01", secret: [UInt8](repeating: 1, count: 32))
        let new = (id: "2026-11", secret: [UInt8](repeating: 2, count: 32))
        let before = try #require(DeviceTokenKeys([old]))
        let during = try #require(DeviceTokenKeys([new, old]))
        let after = try #require(DeviceTokenKeys([new]))
        let owner = DeviceTokenKeys.Owner(appID: 1, user: "u1", device: "d1")
        let token: [UInt8] = Array(0..<32)
        let sealed = try before.seal(token, for: owner)
        #expect(sealed.keyID == "2026-01" && !sealed.bytes.contains(token))
        #expect(try during.open(sealed, for: owner) == token)
        #expect(during.current == "2026-11")
        #expect(throws: DeviceTokenKeys.Unreadable.unknownKey("2026-01")) { try after.open(sealed, for: owner) }
        let other = DeviceTokenKeys.Owner(appID: 2, user: "u1", device: "d1")
        #expect(throws: DeviceTokenKeys.Unreadable.broken("2026-01")) { try before.open(sealed, for: other) }
        #expect(try before.seal(token, for: owner) != sealed)
    }

    @Test("Tokens are sealed with the key with the greatest ID")
    func settings() {
        let secrets = [
            "a": Array(repeating: "A", count: 43).joined() + "=", "b": Array(repeating: "B", count: 42).joined() + "A=",
        ]
        #expect(DeviceTokenKeys(base64: secrets)?.current == "b")
        #expect(DeviceTokenKeys(base64: [:]) == nil)
        #expect(DeviceTokenKeys.secret(base64: "c2hvcnQ=") == nil)
    }
}

extension [UInt8] {
    fileprivate func contains(_ other: [UInt8]) -> Bool {
        indices.contains { self[$0...].starts(with: other) }
    }
}
