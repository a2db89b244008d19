// SPDX-License-Identifier: Apache-2.0

import Hummingbird
package import Logging
import PostgresClient
import ServiceLifecycle
import Waiting
import WidgetModel
package import WidgetStore

/// The HTTP API: health checks, and the routes under `/v1` and the console, which are served only with keys to verify
/// tokens.
package final class APIService: Service {
    private let configuration: APIConfiguration
    private let store: WidgetStore
    private let resources: APIResources
    private let readiness: Readiness
    private let liveness: [LivenessProbe]
    private let quotas: Quotas
    /// Settings of the console; nil: it is not served.
    private let console: ConsoleConfiguration?
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// - Parameter onListening: called with the port once the API listens.
    package init(
        configuration: APIConfiguration, store: WidgetStore, resources: APIResources = APIResources(),
        console: ConsoleConfiguration? = nil, readiness: Readiness, liveness: [LivenessProbe] = [], logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.configuration = configuration
        self.store = store
        self.resources = resources
        self.console = console
        self.readiness = readiness
        self.liveness = liveness
        self.logger = logger
        self.onListening = onListening
        quotas = Quotas(
            requests: configuration.rateLimit, burst: configuration.rateBurst, events: configuration.eventQuota,
            reloads: configuration.reloadQuota, deadLetters: configuration.deadLetterQuota,
            changes: resources.changes, pool: store.pool, metrics: resources.metrics)
    }

    /// Serves until graceful shutdown or cancellation.
    ///
    /// The keys of tokens must have been loaded.
    package func run() async throws {
        let application = Application(
            serving: router(), host: configuration.host, port: configuration.port, times: configuration.times,
            logger: logger, onListening: onListening)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [resources] in await resources.keys?.run() }
            if let console, let port = console.port, let router = consoleRouter() {
                let pages = Application(
                    serving: router, host: configuration.host, port: port, times: configuration.times, logger: logger,
                    onListening: console.onListening)
                group.addTask { try await pages.run() }
            }
            if let fetches = resources.fetches { group.addTask { await fetches.run() } }
            if resources.keys != nil { group.addTask { await self.pollOutcomes() } }
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
        let routes = routes
        let table = routes.table
        let isServed = resources.keys != nil
        let check = resources.keys.map(accessCheck)
        let pages = console?.port == nil ? check.flatMap { self.pages(over: routes, $0) } : nil
        let router = makeRouter(pages) { path in
            if Router.healthPaths.contains(path) { return ["GET", "HEAD"] }
            return isServed ? table.methods(at: path) : []
        }
        router.addHealth(readiness, liveness)
        if let check { table.add(to: router, behind: check) }
        pages?.add(to: router)
        return router
    }

    /// The router of the console's own port; nil without keys.
    func consoleRouter() -> Router<APIContext>? {
        let routes = routes
        guard let check = resources.keys.map(accessCheck), let pages = pages(over: routes, check) else { return nil }
        let table = routes.table.filter { Console.routesOfForms.contains($0.id) }
        let router = makeRouter(pages) { table.methods(at: $0) }
        table.add(to: router, behind: check)
        pages.add(to: router)
        return router
    }

    private func pages(over routes: Routes, _ check: AccessCheck) -> Console? {
        console.map { Console($0, routes: routes, check: check, readiness: readiness) }
    }

    private func makeRouter(
        _ console: Console?, methods: @escaping @Sendable (String) -> [String]
    ) -> Router<APIContext> {
        let router = Router(context: APIContext.self)
        router.add(
            middleware: APIMiddleware(
                origins: Set(configuration.corsOrigins), methods: methods,
                page: { await console?.page(of: $0, $1, $2) }, logger: logger))
        return router
    }

    private func accessCheck(_ keys: TokenKeyStore) -> AccessCheck {
        // The audit log is written at every level.
        var audit = logger
        if audit.logLevel > .notice { audit.logLevel = .notice }
        let limit = configuration.failuresPerMinute
        return AccessCheck(
            verifier: TokenVerifier(keys: keys, rules: configuration.rules), quotas: quotas,
            failures: limit > 0 ? RateLimiter(rate: Double(limit) / 60, burst: limit) : nil,
            receiveTime: configuration.times.receive, logger: audit)
    }

    var routes: Routes {
        Routes(
            store: store, directory: DirectoryCache(pool: store.pool), resources: resources,
            outcomeWait: configuration.outcomeWait)
    }

    /// Polls for the outcomes that requests wait for, with one statement for all, until the task is cancelled.
    func pollOutcomes() async {
        let changes = resources.changes
        while !Task.isCancelled {
            let version = changes.eventsAwaited.version
            let events = changes.awaitedEvents
            guard !events.isEmpty else {
                try? await changes.eventsAwaited.wait(past: version)
                continue
            }
            if let found = try? await store.query(.findEventOutcomes(events)) {
                changes.notify(found.map { .event($0) })
            }
            try? await Task.sleep(for: .milliseconds(50))
        }
    }
}

/// Settings of the HTTP API server.
package struct APIConfiguration: Sendable, Equatable {
    /// Address to bind.
    package var host = "127.0.0.1"
    /// 0 lets the system choose.
    package var port = 8_080
    /// Path of the JWKS file with the keys of tokens; without it, `/v1` is not served.
    package var keys: String?
    /// Requirements on tokens.
    package var rules = TokenRules()
    /// Requests of a bearer per second in the long run; 0 for no limit.
    package var rateLimit = 1_000
    /// Requests of a bearer at once.
    package var rateBurst = 2_000
    /// Events of an app per minute, and reload requests among them; 0 for no limit.
    package var eventQuota = 0
    package var reloadQuota = 0
    /// Largest number of an app's waiting dead letters with which events may be published; 0 for no limit.
    package var deadLetterQuota = 100_000
    /// Refused tokens of one address per minute before its tokens are no longer verified; 0 for no limit.
    package var failuresPerMinute = 60
    package var times = ConnectionTimes()
    /// Limits of requests and streams that wait for changes.
    package var waits = TimelineChanges.Limits()
    /// Longest wait for the outcome of an event.
    package var outcomeWait = Duration.seconds(10)
    /// Origins whose pages may call the API from a browser.
    package var corsOrigins: [String] = []

    package init() {}
}
