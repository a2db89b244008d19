// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import Logging
import ServiceLifecycle
import UnixSignals

/// Places a widget, requests its reload, and ends.
@main
struct Publisher {
    static func main() async throws {
        let logger = Logger(label: "publisher")
        let servers = ProcessInfo.processInfo.environment["FRESHET_KAFKA_BOOTSTRAP_SERVERS"] ?? "localhost:9092"
        let center = try WidgetCenter(
            app: "com.example.bank",
            configuration: WidgetCenterConfiguration(bootstrapServers: servers, source: "/samples/publisher"),
            logger: logger)
        let group = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: [
                    .init(service: center),
                    .init(service: Purchases(center: center), successTerminationBehavior: .gracefullyShutdownGroup),
                ],
                gracefulShutdownSignals: [.sigterm, .sigint], logger: logger))
        try await group.run()
    }
}

/// Service that publishes the events.
struct Purchases: Service {
    let center: WidgetCenter

    func run() async throws {
        let environment = WidgetCenter.Environment(locale: "en-US", timeZone: "Europe/Berlin")
        let published = try await center.publish([
            .widgetPlaced(
                "w1", of: "u42", device: "d1", kind: "RecentPurchases", family: .systemMedium,
                configuration: ["card": "acme"], environment: environment),
            .widgetViewed("w1", of: "u42"),
            .reloadTimelines(ofKind: "RecentPurchases", for: .user("u42"), matching: ["card": "acme"]),
        ])
        for event in published {
            print("\(event.id) is stored in \(event.topic), partition \(event.partition)")
        }
    }
}
