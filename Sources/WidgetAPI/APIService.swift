import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle
package import WidgetStore

/// The HTTP API: health for orchestrators, and everything under `/v1`, which is there only when there are keys to verify
/// tokens with.
package final class APIService: Service {
    /// What the API works with besides the database.
    package struct Resources: Sendable {
        /// Nil: nobody is let in, and `/v1` does not exist.
        package var keys: TokenKeyStore?
        /// Nil: nothing can be changed.
        package var events: EventOutlet?
        package var lookup: EventLookup
        package var changes: TimelineChanges

        package init(
            keys: TokenKeyStore? = nil, events: EventOutlet? = nil,
            lookup: EventLookup = EventLookup(reader: nil, topics: []), changes: TimelineChanges = TimelineChanges()
        ) {
            self.keys = keys
            self.events = events
            self.lookup = lookup
            self.changes = changes
        }
    }

    /// Why the API cannot be served with these settings.
    package struct UnusableKeys: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    private let configuration: APIConfiguration
    private let store: WidgetStore
    private let resources: Resources
    private let readiness: Readiness
    private let liveness: Liveness
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// - Parameter onListening: told the port once the API listens.
    package init(
        configuration: APIConfiguration, store: WidgetStore, resources: Resources = Resources(),
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
    }

    /// Serves until graceful shutdown or cancellation.
    ///
    /// - Throws: ``UnusableKeys`` when the keys of tokens cannot be read at the start.
    package func run() async throws {
        if let keys = resources.keys {
            do throws(TokenKeyStore.Unreadable) {
                try await keys.load()
            } catch {
                throw UnusableKeys(description: error.description)
            }
        }
        // A line for every request would drown those of the rest.
        var requestLogger = logger
        if requestLogger.logLevel < .notice { requestLogger.logLevel = .notice }
        let application = Application(
            router: router(),
            // A connection on which nothing is asked for, or a request that does not come, is closed.
            server: configuration.times.server,
            configuration: ApplicationConfiguration(
                address: .hostname(configuration.host, port: configuration.port), serverName: "freshet"),
            onServerRunning: { [onListening] channel in
                if let port = channel.localAddress?.port { onListening(port) }
            },
            logger: requestLogger)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [resources] in await resources.keys?.run() }
            // Who waits is let go at once, so that the server can stop.
            try await withGracefulShutdownHandler {
                try await application.run()
            } onGracefulShutdown: { [resources] in
                resources.changes.close()
            }
            group.cancelAll()
        }
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
                methods: { isServed ? routes.methods(at: $0) : [] }, logger: logger))
        HealthRoutes(readiness: readiness, liveness: liveness).add(to: router)
        if let keys = resources.keys {
            let verifier = TokenVerifier(keys: keys, rules: configuration.rules)
            let limiter = configuration.rate.map { RateLimiter(rate: $0.limit, burst: $0.burst) }
            let failures = configuration.failuresPerMinute.map { FailureLimiter(perMinute: $0) }
            // The audit is written whatever else is kept out of the log.
            var audit = logger
            if audit.logLevel > .notice { audit.logLevel = .notice }
            let gate = APIGate(
                verifier: verifier, limiter: limiter, failures: failures, receiveTime: configuration.times.receive,
                logger: audit)
            routes.add(to: router, behind: gate)
        }
        return router
    }

    /// All routes under `/v1`.
    var routes: APIRoutes {
        APIRoutes(
            APIParts(
                store: store, directory: DirectoryCache(pool: store.pool), events: resources.events,
                lookup: resources.lookup, changes: resources.changes))
    }
}
