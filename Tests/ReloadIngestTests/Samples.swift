// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import WidgetEvents
import WidgetModel

@testable import ReloadIngest
@testable import WidgetStore

enum SampleKind {
    static let appName = "com.example.bank"
    static let app: Int32 = 1
    static let purchases: Int32 = 11
    static let dueDate: Int32 = 12
    static let weather: Int32 = 13
    static let retired: Int32 = 14
    static let configured: Int32 = 15
}

extension FoldedChange {
    init(
        _ change: FreshetEvent.Change, at time: Timestamp, record: Int = 0, user: String? = nil,
        handling: EventHandling = EventHandling()
    ) {
        self.init(
            record: record, position: .at(record), app: .sample, time: time, user: user, change: change,
            handling: handling)
    }
}

extension RegisteredApp {
    static let sample = RegisteredApp(
        id: SampleKind.app, name: SampleKind.appName, isDeveloperMode: false, signingSecret: [1])
}

extension KindDirectory {
    static let sample = sample(configured: .sample)

    /// - Parameter intent: of the kind `Configured`.
    static func sample(configured intent: IntentDefinition) -> KindDirectory {
        func kind(
            _ id: Int32, _ name: String, sharing: KindSharing = .perUser, variesBy: KindVariation = .all,
            isRetired: Bool = false, intent: IntentDefinition? = nil
        ) -> RegisteredKind {
            RegisteredKind(
                id: id, appID: SampleKind.app, app: SampleKind.appName, isDeveloperMode: false,
                definition: KindDefinition(
                    name: name, displayName: name, description: "", families: [.systemSmall, .systemMedium],
                    sharing: sharing, variesBy: variesBy, providerURL: "http://127.0.0.1:1",
                    placeholder: .object(JSONObject()), intent: intent),
                isRetired: isRetired)
        }
        return KindDirectory(
            apps: [.sample],
            kinds: [
                kind(SampleKind.purchases, "Purchases"), kind(SampleKind.dueDate, "DueDate"),
                kind(SampleKind.weather, "Weather", sharing: .shared, variesBy: []),
                kind(SampleKind.retired, "Retired", isRetired: true),
                kind(SampleKind.configured, "Configured", intent: intent),
            ])
    }
}

extension IntentDefinition {
    static let sample = IntentDefinition(
        title: "Purchases",
        parameters: [
            IntentParameter(name: "card", displayName: "Card", type: .custom(typeName: "Card")),
            IntentParameter(
                name: "category", displayName: "Category",
                type: .enumeration([.init(name: "all", displayName: "All"), .init(name: "food", displayName: "Food")]),
                defaultValue: "all"),
            IntentParameter(
                name: "shops", displayName: "Shops", type: .string(.words), count: .fixed([.systemSmall: 1]),
                parent: .init(name: "category", value: "food")),
            IntentParameter(
                name: "count", displayName: "Count", type: .integer(.init(minimum: 1, maximum: 5), .stepper)),
        ])
}

extension EventPosition {
    static func at(_ offset: Int) -> EventPosition {
        EventPosition(topic: 0, partition: 0, offset: Int64(offset))
    }
}

extension BatchEvent {
    private static func request(_ request: ReloadRequest, _ offset: Int) -> BatchEvent {
        BatchEvent(
            record: offset, position: .at(offset), time: nil,
            event: .reload(request))
    }

    static func push(
        app: String = SampleKind.appName, user: String, kinds: [String], matching: WidgetConfiguration? = nil,
        offset: Int
    ) -> BatchEvent {
        request(
            ReloadRequest(
                app: app, audience: .user(user), kinds: KindScope(names: kinds) ?? .all, matching: matching,
                reason: .push), offset)
    }

    static func appChange(user: String, kinds: [String], reason: ReloadReason, offset: Int) -> BatchEvent {
        request(
            ReloadRequest(
                app: SampleKind.appName, audience: .user(user), kinds: KindScope(names: kinds) ?? .all,
                reason: reason), offset)
    }

    static func everyone(kinds: [String], matching: WidgetConfiguration? = nil, offset: Int) -> BatchEvent {
        request(
            ReloadRequest(
                app: SampleKind.appName, audience: .everyone, kinds: KindScope(names: kinds) ?? .all,
                matching: matching, reason: .push), offset)
    }
}

enum Configurations {
    /// Configurations that the sample's intent does not allow, with pointers to the values.
    static let refused = [
        (#"{"crad": "acme"}"#, "/configuration/crad"), (#"{"card": 7}"#, "/configuration/card"),
        (#"{"category": "drinks"}"#, "/configuration/category"), (#"{"count": 6}"#, "/configuration/count"),
        (#"{"category": "food", "shops": ["a", "b"]}"#, "/configuration/shops"),
        (#"{"category": "food", "shops": [1]}"#, "/configuration/shops/0"),
    ]
}

extension WidgetPlacement {
    static func sample(
        _ widget: String, user: String = "u1", device: String = "d1", kind: String = "Purchases",
        family: WidgetFamily = .systemSmall, configuration: WidgetConfiguration = .empty
    ) -> WidgetPlacement {
        WidgetPlacement(
            app: SampleKind.appName, widget: widget, user: user, device: device, kind: kind, family: family,
            configuration: configuration,
            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"))
    }
}

extension StoredWidget {
    static func sample(
        _ id: String, device: String = "d1", kindID: Int32 = SampleKind.purchases, isRemoved: Bool = false,
        configuration: String = "{}", changedAt: Timestamp
    ) -> StoredWidget {
        let identity = TimelineIdentity(
            app: SampleKind.appName, kind: "Purchases", sharing: .perUser, variesBy: .all, family: .systemSmall,
            configuration: .empty, environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"),
            user: "u1")
        return StoredWidget(
            appID: SampleKind.app, id: id, kindID: kindID, family: .systemSmall,
            timeline: isRemoved ? nil : (1, identity.id), user: "u1", device: device,
            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"),
            configuration: configuration, misfits: 0, changedAt: changedAt)
    }
}
