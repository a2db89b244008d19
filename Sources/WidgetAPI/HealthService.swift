import Hummingbird
package import Logging
import ServiceLifecycle

/// A server of `/health/live`, `/health/ready` and `/metrics` on a port of its own, for processes of any role.
package final class HealthService: Service {
    /// Limits for probes, which send no bodies.
    package static let shortTimes = ConnectionTimes(receive: .seconds(5))

    private let host: String
    private let port: Int
    private let routes: HealthRoutes
    private let metrics: @Sendable () -> String
    private let times: ConnectionTimes
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// - Parameters:
    ///   - port: 0 lets the system choose.
    ///   - metrics: returns the page at `/metrics`, quickly and without I/O.
    ///   - onListening: called with the port once the service listens.
    package init(
        host: String, port: Int, readiness: Readiness, liveness: Liveness,
        metrics: @escaping @Sendable () -> String = { "" }, times: ConnectionTimes = shortTimes, logger: Logger,
        onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.host = host
        self.port = port
        routes = HealthRoutes(readiness: readiness, liveness: liveness)
        self.metrics = metrics
        self.times = times
        self.onListening = onListening
        self.logger = logger
    }

    /// Serves until graceful shutdown or cancellation.
    package func run() async throws {
        let router = Router(context: APIContext.self)
        router.add(middleware: RequestIDMiddleware())
        router.add(
            middleware: ProblemMiddleware(
                methods: { HealthRoutes.paths.union(["/metrics"]).contains($0) ? ["GET", "HEAD"] : [] },
                logger: logger))
        routes.add(to: router)
        router.onGet("metrics") { [metrics] _, _ in
            Response(
                status: .ok, headers: [.contentType: PrometheusText.contentType],
                body: ResponseBody(byteBuffer: ByteBuffer(string: metrics())))
        }
        let application = Application(
            serving: router, host: host, port: port, times: times, logger: logger, onListening: onListening)
        try await application.run()
    }
}
