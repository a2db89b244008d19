package import Logging
import NIOCore
package import ServiceLifecycle
import WidgetAPI

/// Background work of a node as a service of its group.
package struct BackgroundService: Service, CustomStringConvertible {
    package let description: String
    private let body: @Sendable () async throws -> Void

    /// - Parameter body: ends when its task is cancelled, which a graceful shutdown does as well.
    package init(_ description: String, _ body: @escaping @Sendable () async throws -> Void) {
        self.description = description
        self.body = body
    }

    package func run() async throws {
        do {
            try await cancelWhenGracefulShutdown(body)
        } catch is CancellationError {
            return
        }
    }
}

/// The services of a node as one, and what they share: released when all of them have ended, however they ended, so
/// that also a service that is cancelled can still give back what it holds.
struct NodeService: Service, CustomStringConvertible {
    let description = "node"
    /// In the order in which they start; stopped in reverse.
    let parts: [any Service]
    let release: @Sendable () async -> Void
    let logger: Logger

    func run() async throws {
        let outcome: Result<Void, any Error>
        do {
            // Takes part in the graceful shutdown of the group that this service is in.
            try await ServiceGroup(configuration: .ofFreshet(parts, logger: logger)).run()
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        // A task of its own, since this one may be cancelled.
        await Task { await release() }.value
        try outcome.get()
    }
}

extension ServiceGroupConfiguration {
    /// When a service ends, whether it should or not, the others are told to end in order.
    package static func ofFreshet(_ services: [any Service], logger: Logger) -> ServiceGroupConfiguration {
        // What a group says of its services is for those who debug it.
        var quiet = logger
        if quiet.logLevel < .notice, quiet.logLevel > .debug { quiet.logLevel = .notice }
        return ServiceGroupConfiguration(
            services: services.map {
                ServiceConfiguration(
                    service: $0, successTerminationBehavior: .gracefullyShutdownGroup,
                    failureTerminationBehavior: .gracefullyShutdownGroup)
            },
            logger: quiet)
    }
}

/// A server whose port others wait for: when it ends, they have waited long enough.
package struct ListeningService: Service, CustomStringConvertible {
    package let description: String
    let service: any Service
    let port: ListeningPort
    /// Name and address of the listener, for messages.
    let place: String

    package init(description: String, service: any Service, port: ListeningPort, place: String) {
        self.description = description
        self.service = service
        self.port = port
        self.place = place
    }

    package func run() async throws {
        defer { port.closes() }
        do {
            try await service.run()
        } catch let error as IOError {
            throw CommandFailure(.failure, "\(place) failed: \(error)")
        } catch let error as APIService.UnusableKeys {
            throw CommandFailure(.configuration, "api.keys: \(error)")
        }
    }
}
