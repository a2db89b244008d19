import AsyncHTTPClient
import ReloadWorkers
import Synchronization
import WidgetModel

/// Connections of a process to providers, made with the first request. Its parts share them.
final class NodeProviders: ProviderFetching {
    private enum State {
        case idle
        case open(HTTPClient, ProviderClient)
        case closed
    }

    private let egress: EgressGuard
    private let configuration: HTTPClient.Configuration
    private let state = Mutex(State.idle)

    init(egress: EgressGuard, connectionsPerHost: Int, limits: ConnectionLimits) {
        self.egress = egress
        configuration = ProviderClient.configuration(
            egress: egress, connectionsPerHost: connectionsPerHost, limits: limits)
    }

    func fetch(_ call: ProviderCall) async throws -> [UInt8] {
        let client = state.withLock { state -> ProviderClient? in
            switch state {
            case .open(_, let client): return client
            case .closed: return nil
            case .idle:
                let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
                let client = ProviderClient(http: http, egress: egress)
                state = .open(http, client)
                return client
            }
        }
        guard let client else { throw ProviderFailure(.connection, "the process is shutting down") }
        return try await client.fetch(call)
    }

    /// Closes the connections; later requests fail.
    func shutdown() async {
        let http = state.withLock { state -> HTTPClient? in
            defer { state = .closed }
            if case .open(let http, _) = state { return http }
            return nil
        }
        try? await http?.shutdown()
    }
}
