// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import JSON
package import Logging
import ServiceLifecycle
import Synchronization
import Waiting
import WidgetModel
package import WidgetStore

/// A dependency of the process.
package struct ReadinessCheck: Sendable {
    /// `postgres`, `migrations`, `kafka`, `ingest`
    package let name: String
    /// Time after which an answer is late; nil if the check has no usual time.
    let slowAfter: Duration?
    /// Returns the reason why the dependency is not ready; nil if it is ready.
    package let missing: @Sendable () async -> String?

    package init(name: String, slowAfter: Duration? = nil, missing: @escaping @Sendable () async -> String?) {
        self.name = name
        self.slowAfter = slowAfter
        self.missing = missing
    }
}

/// Runs the readiness checks concurrently, each with a time limit, and at most once a second, so that probes cause no
/// load.
package final class Readiness: Sendable {
    private let checks: [ReadinessCheck]
    private let timeLimit: Duration
    private let freshness: Duration
    /// The latest report, and its end; nil while the checks run.
    private let state = Mutex<(report: Task<[ProcessObstacle], Never>?, endedAt: ContinuousClock.Instant?)>((nil, nil))

    package init(checks: [ReadinessCheck], timeLimit: Duration = .seconds(3), freshness: Duration = .seconds(1)) {
        self.checks = checks
        self.timeLimit = timeLimit
        self.freshness = freshness
    }

    /// The dependencies that are missing or slow.
    ///
    /// - Parameter maximumAge: age up to which an earlier report is repeated; nil is the freshness of probes.
    package func obstacles(maximumAge: Duration? = nil) async -> [ProcessObstacle] {
        let maximumAge = maximumAge ?? freshness
        let report = state.withLock { state in
            if let report = state.report, state.endedAt.map({ $0.duration(to: .now) < maximumAge }) ?? true {
                return report
            }
            // Unstructured, since several probes wait for it and none may cancel it. Each check has a time limit.
            let report = Task { [self] in
                let report = await run()
                self.state.withLock { $0.endedAt = .now }
                return report
            }
            state = (report, nil)
            return report
        }
        return await report.value
    }

    private func run() async -> [ProcessObstacle] {
        await withTaskGroup(of: (Int, ProcessObstacle?).self) { group in
            for (index, check) in checks.enumerated() {
                group.addTask { (index, await self.obstacle(check)) }
            }
            var found: [ProcessObstacle?] = Array(repeating: nil, count: checks.count)
            for await (index, obstacle) in group { found[index] = obstacle }
            return found.compactMap(\.self)
        }
    }

    private func obstacle(_ check: ReadinessCheck) async -> ProcessObstacle? {
        let start = ContinuousClock.now
        do {
            guard let missing = try await withTimeLimit(timeLimit, { await check.missing() }) else {
                return ProcessObstacle(name: check.name, reason: "no answer within \(timeLimit)")
            }
            if let missing { return ProcessObstacle(name: check.name, reason: missing) }
        } catch {
            return ProcessObstacle(name: check.name, reason: "not checked")
        }
        let time = start.duration(to: .now)
        guard let limit = check.slowAfter, time > limit else { return nil }
        return ProcessObstacle(
            name: check.name, reason: "slow: the smallest request took \(time.words)", isSlow: true)
    }
}

/// A loop of the process that must make progress.
package struct LivenessProbe: Sendable {
    /// `ingest`, `consumer`, `workers`
    package let name: String
    /// Longest time without progress; generous, since the orchestrator restarts the process after it.
    package let limit: Duration
    /// Time since the last progress of the loop; nil while it is idle or does not run.
    package let silence: @Sendable () -> Duration?

    package init(name: String, limit: Duration, silence: @escaping @Sendable () -> Duration?) {
        self.name = name
        self.limit = limit
        self.silence = silence
    }
}

extension [LivenessProbe] {
    /// Loops without progress, with the time since the last; empty if the process itself works. Kafka and PostgreSQL do
    /// not matter, since a restart would not bring them back.
    func wedged() -> [(name: String, silence: Duration)] {
        compactMap { probe in
            guard let silence = probe.silence(), silence > probe.limit else { return nil }
            return (probe.name, silence)
        }
    }
}

extension Router<APIContext> {
    /// Paths of the health checks.
    static var healthPaths: Set<String> { ["/health/live", "/health/ready"] }

    /// Adds health checks for orchestrators.
    func addHealth(_ readiness: Readiness, _ liveness: [LivenessProbe]) {
        onGet("health/live") { _, _ in
            let wedged = liveness.wedged()
            guard !wedged.isEmpty else { return Response(["status": "live"]) }
            let loops = wedged.map { loop -> JSONValue in
                ["name": .string(loop.name), "silentSeconds": .seconds(loop.silence)]
            }
            return Response(["status": "wedged", "loops": .array(loops)], .serviceUnavailable)
        }
        onGet("health/ready") { _, _ in
            let obstacles = await readiness.obstacles()
            func named(slow: Bool) -> [JSONValue] {
                obstacles.filter { $0.isSlow == slow }.map { ["name": .string($0.name), "reason": .string($0.reason)] }
            }
            let missing = named(slow: false)
            return Response(
                [
                    "status": missing.isEmpty ? "ready" : "notReady", "missing": .array(missing),
                    "slow": .array(named(slow: true)),
                ],
                missing.isEmpty ? .ok : .serviceUnavailable)
        }
    }
}

/// A server of `/health/live`, `/health/ready` and `/metrics` on a port of its own, for processes of any role.
package final class HealthService: Service {
    /// Limits for probes, which send no bodies.
    package static let shortTimes = ConnectionTimes(receive: .seconds(5))

    private let host: String
    private let port: Int
    private let readiness: Readiness
    private let liveness: [LivenessProbe]
    private let metrics: @Sendable () -> String
    private let times: ConnectionTimes
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// - Parameters:
    ///   - port: 0 lets the system choose.
    ///   - metrics: returns the page at `/metrics`, quickly and without I/O.
    ///   - onListening: called with the port once the service listens.
    package init(
        host: String, port: Int, readiness: Readiness, liveness: [LivenessProbe],
        metrics: @escaping @Sendable () -> String = { "" }, times: ConnectionTimes = shortTimes, logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        self.readiness = readiness
        self.liveness = liveness
        self.metrics = metrics
        self.times = times
        self.onListening = onListening
        self.logger = logger
    }

    /// Serves until graceful shutdown or cancellation.
    package func run() async throws {
        let router = Router(context: APIContext.self)
        router.add(
            middleware: APIMiddleware(
                methods: { Router.healthPaths.union(["/metrics"]).contains($0) ? ["GET", "HEAD"] : [] },
                logger: logger))
        router.addHealth(readiness, liveness)
        router.onGet("metrics") { [metrics] _, _ in
            Response(
                status: .ok, headers: [.contentType: MetricRegistry.pageType],
                body: ResponseBody(byteBuffer: ByteBuffer(string: metrics())))
        }
        let application = Application(
            serving: router, host: host, port: port, times: times, logger: logger, onListening: onListening)
        try await application.run()
    }
}
