import HTTPTypes
import Hummingbird
import JSON
package import ReloadIngest
package import WidgetModel
package import WidgetRepresentation
import WidgetStore

/// Dependencies of the API besides the database.
package struct APIResources: Sendable {
    /// Keys of tokens; without them `/v1` is not served.
    package var keys: TokenKeyStore?
    /// Publisher of events; without it, the API is read-only.
    package var events: EventOutlet?
    package var lookup = EventLookup(reader: nil, topics: [])
    package var changes = TimelineChanges()
    /// Violation of the rules of egress by a provider's URL; nil for none.
    package var providerProblem: @Sendable (ProviderURL) async -> String? = { _ in nil }
    /// Sends a provider a test request, signed with the secrets. Returns nil if the provider accepts it.
    package var askProvider: @Sendable (_ url: String, _ secrets: [[UInt8]]) async -> TrialFailure? = { _, _ in nil }
    /// Source of dynamic options and defaults.
    package var configurations: (any ConfigurationProvider)?
    /// Configuration for replays of dead letters.
    package var ingest = IngestConfiguration()
    /// Limits of automatic rotations and suggestions, for explanations and simulations.
    package var rotation = RotationPolicy()
    /// Recorder of fetches by registered devices.
    package var fetches: FetchRecorder?
    /// Freshness objective of kinds without one of their own.
    package var objective = Duration.seconds(30)

    package init() {}
}

/// Dependencies of the routes.
struct RouteDependencies: Sendable {
    let store: WidgetStore
    let directory: DirectoryCache
    let resources: APIResources
    /// Longest wait for the outcome of an event.
    let outcomeWait: Duration

    var changes: TimelineChanges { resources.changes }

    /// The kind of the path, unless it is retired.
    func kind(of call: APICall) async throws -> RegisteredKind {
        let name = try call.path("kind")
        let kinds = try await store.query(.listKinds(app: call.app))
        guard let found = kinds.first(where: { Text.equal($0.name, name) }), !found.isRetired else {
            throw Problem.notFound
        }
        guard case .readable(let kind) = found else { throw Problem.kindUnreadable }
        return kind
    }

    func outlet() throws(Problem) -> EventOutlet {
        guard let events = resources.events else { throw .eventsUnavailable }
        return events
    }
}

/// Failure of a test request to a provider: its class, and the status of the answer if there was one.
package typealias TrialFailure = (reason: String, message: String, status: Int?)

extension APICall {
    /// The caller's trace context, for the event.
    var traceparent: String? {
        HTTPField.Name("traceparent").flatMap { request.headers[$0] }.flatMap {
            $0.utf8.count <= 256 && !Text.containsControlCharacter($0) ? $0 : nil
        }
    }
}
