import KafkaClient
import Logging
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import FreshetClient

@Suite(.timeLimit(.patience))
struct WidgetCenterTests {
    @Test("every call becomes the event of its type, under a key that keeps one person's events in order")
    func events() async throws {
        let environment = WidgetCenter.Environment(locale: "de-DE", timeZone: "Europe/Berlin")
        let received = try await published(count: 9) { center in
            try await center.reloadTimelines(ofKind: "Purchases", for: .user("u1"), matching: ["card": "acme"])
            try await center.reloadAllTimelines()
            try await center.appChanged(.foreground, for: .device("d1"), kinds: ["B", "A", "B"])
            try await center.requestReload(for: .everyone, kinds: ["A"], matching: ["card": "acme"])
            try await center.widgetPlaced(
                WidgetCenter.Widget(
                    id: "w1", user: "u1", device: "d1", kind: "Purchases", family: .systemMedium,
                    configuration: [
                        "card": "acme", "limit": 3, "ratio": 0.5, "all": true, "tags": ["a", "b"], "none": nil,
                    ],
                    environment: environment))
            try await center.widgetConfigured("w1", of: "u1", configuration: ["card": "soup"])
            try await center.widgetViewed("w1", of: "u1")
            try await center.environmentChanged(
                ofDevice: "d1", of: "u1", to: environment, significantTimeChange: true)
            try await center.widgetRemoved("w1", of: "u1")
        }
        let app = "com.example.bank"
        let pushes = received.filter { $0.topic == "freshet.pushes" }
        #expect(
            pushes.map(\.event.event) == [
                .push(
                    ReloadRequest(
                        app: app, audience: .user("u1"), kinds: .kinds(["Purchases"]),
                        matching: WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#), reason: .push)),
                .push(ReloadRequest(app: app, audience: .everyone, kinds: .all, reason: .push)),
            ])
        #expect(pushes.map(\.key) == ["u1", app])
        #expect(
            received.filter { $0.topic == "freshet.app-changes" }.map(\.event.event) == [
                .appChange(
                    ReloadRequest(
                        app: app, audience: .device("d1"), kinds: .kinds(["A", "B"]), reason: .foreground)),
                .operatorReload(
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
        let times = widgets.compactMap(\.event.envelope.time)
        #expect(times.count == 5 && times == times.sorted())
        #expect(Set(received.map(\.event.envelope.id)).count == 9)
        #expect(received.allSatisfy { $0.event.envelope.source == "/tests" })
    }

    @Test("what no event may hold is refused before anything is sent")
    func invalidArguments() async throws {
        let received = try await published(count: 1) { center in
            func expectRefusal(_ call: () async throws -> Void) async {
                await #expect { try await call() } throws: { error in
                    (error as? WidgetCenterError)?.code == .invalidArgument
                }
            }
            await expectRefusal { try await center.reloadTimelines(ofKind: "") }
            await expectRefusal { try await center.reloadTimelines(ofKinds: []) }
            await expectRefusal { try await center.reloadAllTimelines(for: .user("a\u{0}b")) }
            await expectRefusal { try await center.reloadAllTimelines(matching: ["x": .decimal(.infinity)]) }
            await expectRefusal { try await center.reloadAllTimelines(matching: ["x": [["nested"]]]) }
            await expectRefusal { try await center.widgetViewed("w", of: String(repeating: "u", count: 257)) }
            await expectRefusal {
                try await center.environmentChanged(
                    ofDevice: "d", of: "u", to: WidgetCenter.Environment(locale: "en US", timeZone: "Etc/UTC"))
            }
            try await center.reloadAllTimelines()
        }
        #expect(received.count == 1)
    }

    @Test("an app that cannot be one, and properties that librdkafka does not know, are refused at once")
    func invalidConfiguration() {
        #expect(throws: WidgetCenterError.self) {
            try WidgetCenter(
                app: "", configuration: WidgetCenterConfiguration(bootstrapServers: "127.0.0.1:1", source: "/t"),
                logger: quiet)
        }
        #expect {
            try WidgetCenter(
                app: "a",
                configuration: WidgetCenterConfiguration(
                    bootstrapServers: "127.0.0.1:1", properties: ["no.such.property": "1"], source: "/t"),
                logger: quiet)
        } throws: { error in
            (error as? WidgetCenterError)?.code == .invalidArgument
        }
    }

    @Test("brokers that cannot be reached fail the call in time, and it can be tried again")
    func unreachable() async throws {
        let center = try WidgetCenter(
            app: "a",
            configuration: WidgetCenterConfiguration(
                bootstrapServers: "127.0.0.1:1", deliveryTimeout: .milliseconds(300), source: "/t"),
            logger: quiet)
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
