// SPDX-License-Identifier: Apache-2.0

package import Logging
import NIOCore
package import ServiceLifecycle
import Synchronization
import Waiting
import WidgetModel

/// Work as a service of a group.
package struct BackgroundService: Service, CustomStringConvertible {
    package let description: String
    private let body: @Sendable () async throws -> Void

    /// Creates background work, which a graceful shutdown cancels.
    package init(_ description: String, _ body: @escaping @Sendable () async throws -> Void) {
        self.init(stoppingItself: description) {
            do {
                try await cancelWhenGracefulShutdown(body)
            } catch is CancellationError {
                return
            }
        }
    }

    /// Creates work that ends by itself in a graceful shutdown.
    init(stoppingItself description: String, _ body: @escaping @Sendable () async throws -> Void) {
        (self.description, self.body) = (description, body)
    }

    package func run() async throws { try await body() }
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

/// Port of a server, available once the server listens.
package final class ListeningPort: Sendable {
    private enum State {
        /// → `listening`, or `closed` if the server never listens
        case starting
        /// → `closed`
        case listening(Int)
        case closed
    }

    private let state = Mutex(State.starting)
    private let changes = Signal()

    package init() {}

    /// - Throws: `CancellationError`, also if the server ended before it listened.
    package func wait() async throws -> Int {
        while true {
            let version = changes.version
            switch state.withLock({ $0 }) {
            case .starting: try await changes.wait(past: version)
            case .listening(let port): return port
            case .closed: throw CancellationError()
            }
        }
    }

    /// Returns the service of the server whose port this is. The wait for the port ends with the server.
    ///
    /// - Parameter place: name and address of the listener, for messages.
    package func service(_ description: String, at place: String, _ server: any Service) -> BackgroundService {
        BackgroundService(stoppingItself: description) { [self] in
            defer { closes() }
            do {
                try await server.run()
            } catch let error as IOError {
                throw CommandFailure(.failure, "\(place) failed: \(error)")
            }
        }
    }

    package func listens(on port: Int) { change(to: .listening(port)) }

    func closes() { change(to: .closed) }

    private func change(to next: sending State) {
        state.withLock { $0 = next }
        changes.signal()
    }
}
