import AsyncHTTPClient
import Foundation
import FreshetService
import NIOCore
import NIOHTTP1
import Synchronization
import WidgetAPI
import WidgetModel

/// Readers of stacks' schedules over HTTP, with the entity tags that they have.
final class ScheduleReaders: Sendable {
    private struct State {
        var latency = LatencyHistogram()
        var tags: [String: String] = [:]
        var answers = 0
        var failures = 0
    }

    /// Most connections.
    private static let connections = 256

    private let state = Mutex(State())
    private let next = Atomic(0)
    private let http: HTTPClient
    private let base: String
    private let token: String
    private let paths: [String]

    /// - Parameters:
    ///   - port: port of the API.
    ///   - paths: of the schedules, below the app.
    init(app: String, port: Int, token: String, paths: [String]) {
        base = "http://127.0.0.1:\(port)/v1/apps/\(app)/"
        self.token = token
        self.paths = paths
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = Self.connections
        http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    func shutdown() async throws { try await http.shutdown() }

    /// Makes a key for the API and a token by it.
    ///
    /// - Parameter file: where the key is written, readable for its owner only.
    static func token(app: String, keyIn file: URL) async throws -> String {
        let jwks: JSONValue = ["keys": [TokenIssuer.makeKey(.hs256, id: "load")]]
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o600]
        guard FileManager.default.createFile(atPath: file.path, contents: Data(jwks.encoded), attributes: attributes)
        else { throw CommandFailure(.failure, "cannot write \(file.path)") }
        return try await TokenIssuer(keys: try await TokenKeys(jwks: jwks.encoded)).issue(
            app: app, scopes: [.widgetsRead], expiresAt: WallClock.now() + .seconds(86_400))
    }

    var answers: Int { state.withLock { $0.answers } }
    var failures: Int { state.withLock { $0.failures } }
    var latency: LatencySummary { state.withLock { $0.latency.summary } }

    /// Reads each schedule once, so that all are planned. What is counted begins afterwards.
    func readAll(width: Int) async throws {
        try await run(width: width) { index in index < self.paths.count ? .now : nil }
        state.withLock { state in
            state.latency.reset()
            (state.answers, state.failures) = (0, 0)
        }
    }

    /// Reads in turn at a rate until a time. Latencies count from the intended time.
    ///
    /// - Parameter width: most requests at a time; those beyond it wait.
    func read(until end: ContinuousClock.Instant, rate: Int, width: Int) async throws {
        let began = ContinuousClock.now
        try await run(width: width) { index in
            let intended = began + .seconds(1) * index / rate
            return intended < end && ContinuousClock.now < end ? intended : nil
        }
    }

    /// - Parameter time: intended time of a request by its number; nil ends the run.
    private func run(
        width: Int, at time: @escaping @Sendable (Int) -> ContinuousClock.Instant?
    ) async throws {
        next.store(0, ordering: .relaxed)
        try await withThrowingDiscardingTaskGroup { group in
            for _ in 0..<width {
                group.addTask {
                    while true {
                        let index = self.next.add(1, ordering: .relaxed).oldValue
                        guard let intended = time(index) else { return }
                        try await Task.sleep(until: intended, clock: .continuous)
                        try await self.ask(self.paths[index % self.paths.count], at: intended)
                    }
                }
            }
        }
    }

    private func ask(_ path: String, at intended: ContinuousClock.Instant) async throws {
        var request = HTTPClientRequest(url: base + path)
        request.headers.add(name: "Authorization", value: "Bearer \(token)")
        if let tag = state.withLock({ $0.tags[path] }) { request.headers.add(name: "If-None-Match", value: tag) }
        let response = try await http.execute(request, timeout: .seconds(30))
        _ = try await response.body.collect(upTo: 1 << 20)
        let took = intended.duration(to: .now)
        state.withLock { state in
            state.answers += 1
            if response.status != .ok, response.status != .notModified { state.failures += 1 }
            state.tags[path] = response.headers.first(name: "ETag")
            state.latency.record(took)
        }
    }
}
