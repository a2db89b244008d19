import ServiceLifecycle

/// Background work of a node as a service of its group.
struct BackgroundService: Service, CustomStringConvertible {
    let description: String
    private let body: @Sendable () async throws -> Void

    /// - Parameter body: ends when its task is cancelled, which a graceful shutdown does as well.
    init(_ description: String, _ body: @escaping @Sendable () async throws -> Void) {
        self.description = description
        self.body = body
    }

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown(body)
        } catch is CancellationError {
            return
        }
    }
}

/// What the other services use: released when all of them have ended, since a group stops its services in the reverse
/// of their order and this one is its first.
struct ReleasingService: Service, CustomStringConvertible {
    let description: String
    let release: @Sendable () async -> Void

    func run() async throws {
        try? await gracefulShutdown()
        await release()
    }
}

/// A server whose port others wait for: when it ends, they have waited long enough.
struct ListeningService: Service, CustomStringConvertible {
    let service: any Service
    let port: ListeningPort

    var description: String { "\(type(of: service))" }

    func run() async throws {
        defer { port.closes() }
        try await service.run()
    }
}
