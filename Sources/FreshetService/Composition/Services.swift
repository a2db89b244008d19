package import Logging
import NIOCore
package import ServiceLifecycle
import Synchronization
import WidgetAPI
import WidgetStore

/// Background work as a service of a group. A graceful shutdown cancels it.
package struct BackgroundService: Service, CustomStringConvertible {
    package let description: String
    private let body: @Sendable () async throws -> Void

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

/// The services of a node with their shared resources, which are released when all services have ended. A cancelled
/// service can therefore still return its work.
struct NodeService: Service, CustomStringConvertible {
    let description = "node"
    /// Services in the order in which they start. They stop in reverse order.
    let parts: [any Service]
    let release: @Sendable () async -> Void
    let logger: Logger

    func run() async throws {
        let outcome: Result<Void, any Error>
        do {
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
    /// The configuration of Freshet's service group. When a service ends, the others are stopped in order.
    package static func ofFreshet(_ services: [any Service], logger: Logger) -> ServiceGroupConfiguration {
        // The group's messages about its services are for debugging.
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

/// A server whose port other services wait for. The wait ends with the server.
package struct ListeningService: Service, CustomStringConvertible {
    package let description: String
    let service: any Service
    let port: ListeningPort
    /// Name and address of the listener, for messages.
    let place: String

    package init(description: String, service: any Service, port: ListeningPort, place: String) {
        (self.description, self.service, self.port, self.place) = (description, service, port, place)
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

/// Port of a server, available once the server listens.
package final class ListeningPort: Sendable {
    /// Error of a server that ended before it listened.
    package struct NeverListened: Error, Sendable {}

    private enum State {
        /// → `listening`, or `closed` if the server never listens
        case starting
        /// → `closed`
        case listening(Int)
        case closed
    }

    private let state = Mutex(State.starting)
    private let changes = WorkSignal()

    package init() {}

    package func wait() async throws -> Int {
        while true {
            let mark = changes.mark(.timelines)
            switch state.withLock({ $0 }) {
            case .starting: try await changes.wait(past: mark)
            case .listening(let port): return port
            case .closed: throw NeverListened()
            }
        }
    }

    package func listens(on port: Int) { change(to: .listening(port)) }

    func closes() { change(to: .closed) }

    private func change(to next: sending State) {
        state.withLock { $0 = next }
        changes.signal(.timelines)
    }
}
