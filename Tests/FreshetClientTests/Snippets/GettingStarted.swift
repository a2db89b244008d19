// SPDX-License-Identifier: Apache-2.0

// The code of the article GettingStarted. The article shows the regions between the marks, and SnippetTests compares
// the two. Only the public interface is used.

// snippet: imports
import Foundation
import FreshetClient
import Logging
import ServiceLifecycle
import UnixSignals

// snippet end

enum GettingStarted {
    static func make(bootstrapServers: String, properties: [String: String], logger: Logger) throws -> WidgetCenter {
        // snippet: make
        var configuration = WidgetCenterConfiguration(bootstrapServers: bootstrapServers, source: "/bank/payments")
        configuration.properties = properties
        let center = try WidgetCenter(app: "com.example.bank", configuration: configuration, logger: logger)
        // snippet end
        return center
    }

    // snippet: service
    struct Purchases: Service {
        let center: WidgetCenter

        func run() async throws {
            // A purchase with the card acme: only the widgets of this person that show this card are stale.
            try await center.reloadTimelines(
                ofKind: "RecentPurchases", for: .user("u42"), matching: ["card": "acme"])
            try? await gracefulShutdown()
        }
    }

    static func run(_ center: WidgetCenter, logger: Logger) async throws {
        let group = ServiceGroup(
            services: [center, Purchases(center: center)], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        try await group.run()
    }
    // snippet end

    static func widgets(_ center: WidgetCenter) async throws {
        // snippet: widgets
        try await center.publish(
            .widgetPlaced(
                "w1", of: "u42", device: "d1", kind: "RecentPurchases", family: .systemMedium,
                configuration: ["card": "acme", "categories": ["food", "fun"]],
                environment: WidgetCenter.Environment(locale: "en-US", timeZone: "Europe/Berlin")))
        try await center.publish(.widgetViewed("w1", of: "u42"))
        try await center.publish(.widgetConfigured("w1", of: "u42", configuration: ["card": "soup"]))
        let environment = WidgetCenter.Environment(locale: "en-US", timeZone: "America/New_York")
        try await center.publish(
            .environmentChanged(ofDevice: "d1", of: "u42", to: environment, significantTimeChange: true))
        try await center.publish(.widgetRemoved("w1", of: "u42"))
        // snippet end
    }

    static func reloads(_ center: WidgetCenter) async throws {
        // snippet: reloads
        try await center.reloadTimelines(ofKind: "DueDate", for: .device("d1"))
        try await center.reloadAllTimelines()
        try await center.publish(.appChanged(.foreground, for: .user("u42"), kinds: ["RecentPurchases"]))
        // snippet end
    }

    static func stacks(_ center: WidgetCenter) async throws {
        // snippet: stacks
        try await center.publish(.stackChanged("home", of: "u42", device: "d1", widgets: ["w1", "w2"]))
        let now = Date()
        let shortcut = WidgetCenter.RelevantShortcut(kind: "DueDate", ranges: [now..<now.addingTimeInterval(1_800)])
        try await center.publish(.relevantShortcuts([shortcut], of: "u42"))
        try await center.publish(
            .interaction(with: "RecentPurchases", configuration: ["card": "acme"], of: "u42"))
        // snippet end
    }

    static func batch(_ center: WidgetCenter, viewed widgets: [(widget: String, user: String)]) async throws {
        // snippet: batch
        var events = widgets.map { WidgetEvent.widgetViewed($0.widget, of: $0.user) }
        do {
            try await center.publish(events)
        } catch {
            guard error.isRetriable else { throw error }
            // The other events are stored. An event keeps its id and date, so it is not applied twice.
            events = error.failedEvents.map { events[$0] }
            try await center.publish(events)
        }
        // snippet end
    }

    static func overload(_ bootstrapServers: String) -> WidgetCenterConfiguration {
        // snippet: overload
        var configuration = WidgetCenterConfiguration(bootstrapServers: bootstrapServers, source: "/bank/payments")
        configuration.deliveryTimeout = .seconds(5)
        configuration.maximumEventsUnderWay = 10_000
        configuration.backPressure = .fail
        configuration.shutdownTimeout = .seconds(3)
        // snippet end
        return configuration
    }

    static func errors(_ center: WidgetCenter, logger: Logger) async throws {
        // snippet: errors
        do {
            try await center.reloadAllTimelines(for: .user("u42"))
        } catch {
            // Such as .overloaded and .notAcknowledged; not .invalidArgument or .notPermitted.
            guard error.isRetriable else { throw error }
            logger.warning("the reload was not requested", metadata: ["error": "\(error)"])
        }
        // snippet end
    }
}
