import AsyncHTTPClient
import Logging
import ReloadWorkers
import ServiceLifecycle
import WidgetDelivery
import WidgetStore

/// The delivery role with its HTTP clients, which are open while it runs.
struct DeliveryRole: Service {
    let wiring: FreshetNode.Wiring
    let configuration: DeliveryConfiguration
    let apns: HTTPClient.Configuration
    let webhooks: HTTPClient.Configuration

    func run() async throws {
        try await APNsAccounts.with(keys: configuration.apnsKeys, configuration: apns) { apns in
            try await HTTPClient.withHTTPClient(configuration: webhooks) { webhooks in
                try await DeliveryService(
                    configuration: configuration, store: WidgetStore(pool: wiring.pool), directory: wiring.directory,
                    apns: apns, webhooks: webhooks, egress: wiring.egress, metrics: wiring.metrics,
                    pulse: wiring.deliveryPulse, logger: wiring.logger
                ).run()
            }
        }
    }
}
