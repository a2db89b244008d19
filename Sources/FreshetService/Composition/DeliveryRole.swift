import AsyncHTTPClient
import Logging
import ReloadWorkers
import ServiceLifecycle
import WidgetDelivery
import WidgetStore

/// The delivery role with its HTTP clients, which are open while it runs.
struct DeliveryRole: Service {
    let configuration: DeliveryConfiguration
    let apns: HTTPClient.Configuration
    let webhooks: HTTPClient.Configuration
    let store: WidgetStore
    let directory: DirectoryCache
    let egress: EgressGuard
    let statistics: DeliveryStatistics
    let pulse: DeliveryPulse
    let logger: Logger

    func run() async throws {
        try await APNsAccounts.with(keys: configuration.apnsKeys, configuration: apns) { apns in
            try await HTTPClient.withHTTPClient(configuration: webhooks) { webhooks in
                try await DeliveryService(
                    configuration: configuration, store: store, directory: directory, apns: apns, webhooks: webhooks,
                    egress: egress, statistics: statistics, pulse: pulse, logger: logger
                ).run()
            }
        }
    }
}
