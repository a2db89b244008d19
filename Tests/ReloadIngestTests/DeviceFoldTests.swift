// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Registrations of devices in a batch", .timeLimit(.minutes(1)))
struct DeviceFoldTests {
    private static let keys = DeviceTokenKeys([(id: "k1", secret: Array(repeating: 9, count: 32))])
    private static let topic = SampleKind.appName + APNsAddress.topicSuffix

    private static func apns(_ token: UInt8 = 1, topic: String = topic) -> DeliveryChannel {
        .apns(APNsAddress(token: Array(repeating: token, count: 8), environment: .production, topic: topic))
    }

    private static func step(
        _ record: Int, device: String = "d1", user: String = "u1", _ channel: DeliveryChannel?, at time: Int64 = 1,
        byArrival: Bool = false
    ) -> FoldedChange {
        FoldedChange(
            .device(channel.map { .registered(device: device, $0) } ?? .unregistered(device: device)),
            at: Timestamp(microseconds: time), record: record, user: user,
            handling: EventHandling(isOrderedByArrival: byArrival))
    }

    private static func fold(
        _ steps: [FoldedChange], registered: [RegisteredDevice] = [], keys: DeviceTokenKeys? = keys,
        _ change: (inout RegistrationRules) -> Void = { _ in }
    ) -> DeviceFold {
        var rules = RegistrationRules()
        change(&rules)
        return DeviceFold(steps, registered: registered, now: .distantFuture, sealing: keys, rules: rules)
    }

    @Test("The latest event of a device is written; older ones count as ignored")
    func latest() throws {
        let fold = Self.fold([
            Self.step(0, Self.apns(1), at: 5), Self.step(1, Self.apns(2), at: 3), Self.step(2, .webhook, at: 7),
            Self.step(3, device: "d2", Self.apns(3), at: 1),
        ])
        let writes = fold.writes.sorted { $0.device < $1.device }
        #expect(writes.map(\.device) == ["d1", "d2"])
        #expect(writes[0].channel == .webhook && writes[0].token == nil)
        #expect(fold.ignored == [IgnoredEvent(record: 1, reason: .older)])
        let owner = DeviceTokenKeys.Owner(appID: SampleKind.app, user: "u1", device: "d2")
        let sealed = try #require(writes[1].token)
        #expect(try Self.keys?.open(sealed, for: owner) == Array(repeating: 3, count: 8))
    }

    @Test("An event that is ordered by its arrival replaces one with a later time")
    func byArrival() {
        let fold = Self.fold([Self.step(0, Self.apns(), at: 5), Self.step(1, nil, at: 3, byArrival: true)])
        #expect(fold.writes.map(\.channel) == [nil] && fold.ignored.isEmpty)
    }

    @Test("Without a key tokens are refused, but webhooks and unregistrations are accepted")
    func noTokenKey() {
        let fold = Self.fold(
            [Self.step(0, Self.apns()), Self.step(1, device: "d2", .webhook), Self.step(2, device: "d3", nil)],
            keys: nil)
        #expect(fold.rejected.map(\.code) == ["noTokenKey"] && fold.rejected.map(\.pointer) == ["/channel"])
        #expect(Set(fold.writes.map(\.device)) == ["d2", "d3"])
    }

    @Test("A topic is the app's or one of its bundle IDs'")
    func topics() {
        let other = Self.apns(topic: "com.example.bank.beta" + APNsAddress.topicSuffix)
        let refused = Self.fold([Self.step(0, other)])
        #expect(refused.rejected.map(\.code) == ["topicNotAllowed"] && refused.writes.isEmpty)
        #expect(refused.rejected.map(\.pointer) == ["/channel/apns/topic"])
        let allowed = Self.fold([Self.step(0, other)]) {
            $0.bundleIDs = [SampleKind.appName: ["com.example.bank.beta"]]
        }
        #expect(allowed.rejected.isEmpty && allowed.writes.count == 1)
        let foreign = Self.fold([Self.step(0, other)]) {
            $0.bundleIDs = ["com.example.other": ["com.example.bank.beta"]]
        }
        #expect(foreign.writes.isEmpty)
    }

    @Test("A user's limit of devices includes stored ones and those of the batch")
    func limit() {
        let steps = [
            Self.step(0, device: "d1", .webhook), Self.step(1, device: "d2", .webhook),
            Self.step(2, device: "d3", .webhook), Self.step(3, device: "d3", user: "u2", .webhook),
            Self.step(4, device: "d1", nil), Self.step(5, device: "d4", .webhook),
        ]
        let fold = Self.fold(steps, registered: [(appID: SampleKind.app, user: "u1", device: "d1")]) {
            $0.devicesPerUser = 2
        }
        #expect(fold.rejected.map(\.record) == [2] && fold.rejected.map(\.code) == ["tooManyDevices"])
        #expect(fold.rejected.first?.message.contains("delivery.devicesPerUser") == true)
        #expect(fold.writes.count == 4)
        #expect(DeviceFold.users(of: steps).map(\.user) == ["u1", "u2"])
    }
}
