import Hummingbird
package import Logging
import PostgresClient
import ServiceLifecycle
package import WidgetStore

/// The HTTP API: health checks, and the routes under `/v1`, which are served only with keys to verify tokens.
package final class APIService: Service {
    /// Error of keys that cannot be used.
    package struct UnusableKeys: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private let configuration: APIConfiguration
    private let store: WidgetStore
    private let resources: APIResources
    private let readiness: Readiness
    private let liveness: Liveness
    private let quotas: Quotas
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// - Parameter onListening: called with the port once the API listens.
    package init(
        configuration: APIConfiguration, store: WidgetStore, resources: APIResources = APIResources(),
        readiness: Readiness, liveness: Liveness = Liveness(), logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.store = store
        self.resources = resources
        self.readiness = readiness
        self.liveness = liveness
        self.logger = logger
        self.onListening = onListening
        quotas = Quotas(
            requests: configuration.rateLimit.map { RateLimiter(rate: Double($0), burst: configuration.rateBurst) },
            configuration.quotas, changes: resources.changes, pool: store.pool)
    }

    /// Serves until graceful shutdown or cancellation.
    ///
    /// - Throws: ``UnusableKeys`` if the keys of tokens cannot be read at the start.
    package func run() async throws {
        if let keys = resources.keys {
            do {
                try await keys.load()
            } catch {
                throw UnusableKeys(description: "\(error)")
            }
        }
        let application = Application(
            serving: router(), host: configuration.host, port: configuration.port, times: configuration.times,
            logger: logger, onListening: onListening)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [resources] in await resources.keys?.run() }
            if let fetches = resources.fetches { group.addTask { await fetches.run() } }
            if resources.keys != nil { group.addTask { [outcomePoll] in await outcomePoll.run() } }
            // Waiting requests end at once, so that the server can stop.
            try await withGracefulShutdownHandler {
                try await application.run()
            } onGracefulShutdown: { [resources] in
                resources.changes.close()
            }
            group.cancelAll()
        }
        // The last requests have been answered now.
        await resources.fetches?.write()
    }

    func router() -> Router<APIContext> {
        let router = Router(context: APIContext.self)
        let routes = routes
        let isServed = resources.keys != nil
        router.add(middleware: RequestIDMiddleware())
        if !configuration.corsOrigins.isEmpty {
            router.add(middleware: CORSMiddleware(origins: configuration.corsOrigins))
        }
        router.add(
            middleware: ProblemMiddleware(
                methods: { path in
                    if HealthRoutes.paths.contains(path) { return ["GET", "HEAD"] }
                    return isServed ? routes.methods(at: path) : []
                }, logger: logger))
        HealthRoutes(readiness: readiness, liveness: liveness).add(to: router)
        if let keys = resources.keys {
            let verifier = TokenVerifier(keys: keys, rules: configuration.rules)
            let failures = configuration.failuresPerMinute.map { RateLimiter<Peer>(rate: Double($0) / 60, burst: $0) }
            // The audit log is written at every level.
            var audit = logger
            if audit.logLevel > .notice { audit.logLevel = .notice }
            let gate = APIGate(
                verifier: verifier,
                quotas: quotas,
                failures: failures, receiveTime: configuration.times.receive, logger: audit)
            routes.add(to: router, behind: gate)
        }
        return router
    }

    /// All routes under `/v1`.
    var routes: APIRoutes {
        APIRoutes(
            APIParts(
                store: store, directory: DirectoryCache(pool: store.pool), resources: resources,
                outcomeWait: configuration.outcomeWait))
    }

    var outcomePoll: OutcomePoll { OutcomePoll(pool: store.pool, changes: resources.changes) }
}
