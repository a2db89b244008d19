// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import FreshetClient

@Suite(.timeLimit(.patience))
struct WidgetCenterTests {
    @Test("Every call publishes the event of its type, with a key that keeps a person's events in order")
    func events() async throws {
        let environment = WidgetCenter.Environment(locale: "de-DE", timeZone: "Europe/Berlin")
        let received = try await published(count: 9) { center in
            try await center.reloadTimelines(ofKind: "Purchases", for: .user("u1"), matching: ["card": "acme"])
            try await center.reloadAllTimelines()
            let placed = WidgetEvent.widgetPlaced(
                "w1", of: "u1", device: "d1", kind: "Purchases", family: .systemMedium,
                configuration: [
                    "card": "acme", "limit": 3, "ratio": 0.5, "all": true, "tags": ["a", "b"], "none": nil,
                ],
                environment: environment)
            let events: [WidgetEvent] = [
                .appChanged(.foreground, for: .device("d1"), kinds: ["B", "A", "B"]),
                .requestReload(for: .everyone, kinds: ["A"], matching: ["card": "acme"]), placed,
                .widgetConfigured("w1", of: "u1", configuration: ["card": "soup"]), .widgetViewed("w1", of: "u1"),
                .environmentChanged(ofDevice: "d1", of: "u1", to: environment, significantTimeChange: true),
                .widgetRemoved("w1", of: "u1"),
            ]
            for event in events { try await center.publish(event) }
        }
        let app = "com.example.bank"
        let pushes = received.filter { $0.topic == "freshet.pushes" }
        #expect(
            pushes.map(\.event.event) == [
                .reload(
                    ReloadRequest(
                        app: app, audience: .user("u1"), kinds: .kinds(["Purchases"]),
                        matching: WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#), reason: .push)),
                .reload(ReloadRequest(app: app, audience: .everyone, kinds: .all, reason: .push)),
            ])
        #expect(pushes.map(\.key) == ["u1", app])
        #expect(
            received.filter { $0.topic == "freshet.app-changes" }.map(\.event.event) == [
                .reload(
                    ReloadRequest(
                        app: app, audience: .device("d1"), kinds: .kinds(["A", "B"]), reason: .foreground)),
                .reload(
                    ReloadRequest(
                        app: app, audience: .everyone, kinds: .kinds(["A"]),
                        matching: WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#), reason: .operator)),
            ])
        let widgets = received.filter { $0.topic == "freshet.widgets" }
        #expect(widgets.allSatisfy { $0.key == "u1" })
        let model = try WidgetEnvironment(locale: "de-DE", timeZone: "Europe/Berlin")
        #expect(
            widgets.map(\.event.event) == [
                .placed(
                    WidgetPlacement(
                        app: app, widget: "w1", user: "u1", device: "d1", kind: "Purchases", family: .systemMedium,
                        configuration: WidgetConfiguration(
                            storedCanonical:
                                #"{"all":true,"card":"acme","limit":3,"none":null,"ratio":0.5,"tags":["a","b"]}"#),
                        environment: model)),
                .configured(
                    app: app, widget: "w1",
                    configuration: WidgetConfiguration(storedCanonical: #"{"card":"soup"}"#)),
                .viewed(app: app, widget: "w1"),
                .environmentChanged(app: app, device: "d1", environment: model, significantTimeChange: true),
                .removed(app: app, widget: "w1"),
            ])
        let times = widgets.compactMap(\.event.time)
        #expect(times.count == 5 && times == times.sorted())
        #expect(Set(received.map(\.event.id)).count == 9)
        #expect(received.allSatisfy { $0.event.source == "/tests" })
    }

    @Test("Invalid arguments are refused before anything is sent, with a pointer into the event")
    func invalidArguments() async throws {
        let received = try await published(count: 1) { center in
            let environment = WidgetCenter.Environment(locale: "en US", timeZone: "Etc/UTC")
            let refused: [(WidgetEvent, place: String)] = [
                (.reloadTimelines(ofKind: ""), "/kinds/0"), (.reloadTimelines(ofKinds: []), "/kinds"),
                (.reloadAllTimelines(for: .user("a\u{0}b")), "/audience/user"),
                (.reloadAllTimelines(matching: ["x": .decimal(.infinity)]), "/matching/x"),
                (.reloadAllTimelines(matching: ["x": [["nested"]]]), "/matching/x/0"),
                (.widgetViewed("w", of: String(repeating: "u", count: 257)), "/user"),
                (.environmentChanged(ofDevice: "d", of: "u", to: environment), "/environment/locale"),
            ]
            for (event, place) in refused {
                await #expect { try await center.publish(event) } throws: { error in
                    guard let error = error as? WidgetCenterError else { return false }
                    return error.code == .invalidArgument && error.message.hasPrefix("\(place): ")
                }
            }
            try await center.reloadAllTimelines()
        }
        #expect(received.count == 1)
    }

    @Test("An invalid app and unknown librdkafka properties are refused at once")
    func invalidConfiguration() {
        #expect(throws: WidgetCenterError.self) {
            try WidgetCenter(
                app: "", configuration: WidgetCenterConfiguration(bootstrapServers: "127.0.0.1:1", source: "/t"),
                logger: quiet)
        }
        var configuration = WidgetCenterConfiguration(bootstrapServers: "127.0.0.1:1", source: "/t")
        configuration.properties = ["no.such.property": "1"]
        #expect {
            try WidgetCenter(app: "a", configuration: configuration, logger: quiet)
        } throws: { error in
            (error as? WidgetCenterError)?.code == .invalidArgument
        }
    }

    @Test("A call without reachable brokers fails in time with a retriable error")
    func unreachable() async throws {
        var configuration = WidgetCenterConfiguration(bootstrapServers: "127.0.0.1:1", source: "/t")
        configuration.deliveryTimeout = .milliseconds(300)
        let center = try WidgetCenter(app: "a", configuration: configuration, logger: quiet)
        await #expect { try await center.reloadAllTimelines() } throws: { error in
            guard let error = error as? WidgetCenterError else { return false }
            return error.code == .notAcknowledged && error.isRetriable
        }
        await center.shutdown()
        await #expect { try await center.reloadAllTimelines() } throws: { error in
            (error as? WidgetCenterError)?.code == .shutDown
        }
    }
}
