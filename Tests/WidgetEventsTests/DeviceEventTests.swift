// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@Suite("Events of registered devices")
struct DeviceEventTests {
    private static let topic = "com.example.bank\(APNsAddress.topicSuffix)"

    private func decode(_ channel: String) throws(EventError) -> FreshetEvent {
        let data = #"{"app":"a","user":"u","device":"d","channel":\#(channel)}"#
        return try EventDecoder().decode(data: Array(data.utf8), of: .deviceRegistered)
    }

    @Test(
        "Encoded events are decoded unchanged",
        arguments: [
            FreshetEvent.deviceUnregistered(app: "a", user: "u", device: "d"),
            .deviceRegistered(app: "a", user: "u", device: "d", channel: .webhook),
            .deviceRegistered(
                app: "a",
                user: "u", device: "d",
                channel: .apns(APNsAddress(token: Array(0..<32), environment: .sandbox, topic: topic))),
        ])
    func roundTrip(_ event: FreshetEvent) throws {
        #expect(try EventDecoder().decode(data: event.data, of: event.type) == event)
        #expect(event.partitionKey == "u")
    }

    @Test("The environment is production by default")
    func environment() throws {
        let apns = #"{"apns":{"token":"00FFaa1122334455","environment":null,"topic":"\#(Self.topic)"}}"#
        let address = APNsAddress(
            token: [0, 0xFF, 0xAA, 0x11, 0x22, 0x33, 0x44, 0x55], environment: .production, topic: Self.topic)
        #expect(try decode(apns) == .deviceRegistered(app: "a", user: "u", device: "d", channel: .apns(address)))
    }

    @Test(
        "An error has a pointer and never contains the token",
        arguments: [
            (#"{}"#, "/channel", "exactly one"), (#"{"webhook":false}"#, "/channel/webhook", "expected true"),
            (
                #"{"webhook":true,"apns":{"token":"0011223344556677","topic":"a.push-type.widgets"}}"#, "/channel",
                "found 2"
            ),
            (#"{"apns":{"token":"secret77","topic":"a.push-type.widgets"}}"#, "/channel/apns/token", "hexadecimal"),
            (
                #"{"apns":{"token":"00112233445566778","topic":"a.push-type.widgets"}}"#, "/channel/apns/token",
                "hexadecimal"
            ),
            (#"{"apns":{"token":"0011223344556677","topic":"a"}}"#, "/channel/apns/topic", "push-type.widgets"),
            (#"{"apns":{"topic":"a.push-type.widgets"}}"#, "/channel/apns", "token"),
            (
                #"{"apns":{"token":"0011223344556677","topic":"a.push-type.widgets","environment":"test"}}"#,
                "/channel/apns/environment", "production or sandbox"
            ),
        ])
    func errors(_ channel: String, _ pointer: String, _ text: String) throws {
        let error = try #require(throws: EventError.self) { try decode(channel) }
        #expect(error.pointer?.hasPrefix(pointer) == true)
        #expect(error.message.contains(text))
        #expect(!error.message.contains("secret") && !error.message.contains("0011"))
    }
}
