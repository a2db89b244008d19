import Hummingbird
package import Logging
package import ReloadIngest
import ServiceLifecycle
package import WidgetModel
package import WidgetRepresentation
package import WidgetStore

/// The HTTP API: health checks, and the routes under `/v1`, which are served only with keys to verify tokens.
package final class APIService: Service {
    /// Dependencies besides the database.
    package struct Resources: Sendable {
        /// Keys of tokens; without them `/v1` is not served.
        package var keys: TokenKeyStore?
        /// Publisher of events; without it nothing can be changed.
        package var events: EventOutlet?
        package var lookup: EventLookup
        package var changes: TimelineChanges
        /// Reason why a provider must not be called, by the rules of egress; nil if it may be.
        package var providerProblem: @Sendable (ProviderURL) async -> String?
        /// Sends a provider a test request, signed with the secrets.
        package var askProvider: @Sendable (_ url: String, _ secrets: [[UInt8]]) async -> ProviderTrial = { _, _ in
            ProviderTrial()
        }
        /// Rules by which dead letters are replayed.
        package var ingest = IngestConfiguration()

        package init(
            keys: TokenKeyStore? = nil, events: EventOutlet? = nil,
            lookup: EventLookup = EventLookup(reader: nil, topics: []), changes: TimelineChanges = TimelineChanges(),
            providerProblem: @escaping @Sendable (ProviderURL) async -> String? = { _ in nil }
        ) {
            self.providerProblem = providerProblem
            self.keys = keys
            self.events = events
            self.lookup = lookup
            self.changes = changes
        }
    }

    /// Error of keys that cannot be used.
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

    /// - Parameter onListening: called with the port once the API listens.
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
    /// - Throws: ``UnusableKeys`` if the keys of tokens cannot be read at the start.
    package func run() async throws {
        if let keys = resources.keys {
            do throws(TokenKeyStore.Unreadable) {
                try await keys.load()
            } catch {
                throw UnusableKeys(description: error.description)
            }
        }
        let application = Application(
            serving: router(), host: configuration.host, port: configuration.port, times: configuration.times,
            logger: logger, onListening: onListening)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [resources] in await resources.keys?.run() }
            if resources.keys != nil { group.addTask { [outcomePoll] in await outcomePoll.run() } }
            // Waiting requests end at once, so that the server can stop.
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
                methods: { path in
                    if HealthRoutes.paths.contains(path) { return ["GET", "HEAD"] }
                    return isServed ? routes.methods(at: path) : []
                }, logger: logger))
        HealthRoutes(readiness: readiness, liveness: liveness).add(to: router)
        if let keys = resources.keys {
            let verifier = TokenVerifier(keys: keys, rules: configuration.rules)
            let limiter = configuration.rate.map { RateLimiter(rate: $0.limit, burst: $0.burst) }
            let failures = configuration.failuresPerMinute.map { FailureLimiter(perMinute: $0) }
            // The audit log is written at every level.
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
                lookup: resources.lookup, changes: resources.changes, providerProblem: resources.providerProblem,
                askProvider: resources.askProvider, ingest: resources.ingest,
                outcomeWait: configuration.outcomeWait))
    }

    var outcomePoll: OutcomePoll { OutcomePoll(pool: store.pool, changes: resources.changes) }
}
