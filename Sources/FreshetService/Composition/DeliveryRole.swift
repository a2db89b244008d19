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
    let logger: Logger

    func run() async throws {
        let clients = [apns, webhooks].map { HTTPClient(eventLoopGroupProvider: .singleton, configuration: $0) }
        let service = DeliveryService(
            configuration: configuration, store: store, directory: directory, apns: clients[0], webhooks: clients[1],
            egress: egress, statistics: statistics, logger: logger)
        let result: Result<Void, any Error>
        do {
            result = .success(try await service.run())
        } catch {
            result = .failure(error)
        }
        for client in clients { try? await client.shutdown() }
        try result.get()
    }
}
