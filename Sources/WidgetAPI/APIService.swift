import Hummingbird
package import Logging
import ServiceLifecycle
package import WidgetStore

/// The HTTP API: health for orchestrators, and what is known of widgets and their timelines, read-only.
package final class APIService: Service {
    private let configuration: APIConfiguration
    private let store: WidgetStore
    private let readiness: Readiness
    private let liveness: Liveness
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// - Parameter onListening: told the port once the API listens.
    package init(
        configuration: APIConfiguration, store: WidgetStore, readiness: Readiness,
        liveness: Liveness = Liveness(), logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.store = store
        self.readiness = readiness
        self.liveness = liveness
        self.logger = logger
        self.onListening = onListening
    }

    /// Serves until graceful shutdown or cancellation.
    package func run() async throws {
        // A line for every request would drown those of the rest.
        var requestLogger = logger
        if requestLogger.logLevel < .notice { requestLogger.logLevel = .notice }
        let application = Application(
            router: router(),
            configuration: ApplicationConfiguration(
                address: .hostname(configuration.host, port: configuration.port), serverName: "freshet"),
            onServerRunning: { [onListening] channel in
                if let port = channel.localAddress?.port { onListening(port) }
            },
            logger: requestLogger)
        try await application.run()
    }

    func router() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.add(middleware: ProblemMiddleware(logger: logger))
        HealthRoutes(readiness: readiness, liveness: liveness).add(to: router)
        if let token = configuration.token {
            let group = router.group("v1").add(middleware: BearerMiddleware(token: token))
            WidgetRoutes(store: store).add(to: group)
        }
        return router
    }
}
