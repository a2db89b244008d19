import HTTPTypes
import Hummingbird
package import ReloadIngest
package import WidgetModel
package import WidgetRepresentation
import WidgetStore

/// Dependencies of the API besides the database.
package struct APIResources: Sendable {
    /// Keys of tokens; without them `/v1` is not served.
    package var keys: TokenKeyStore?
    /// Publisher of events; without it nothing can be changed.
    package var events: EventOutlet?
    package var lookup: EventLookup
    package var changes: TimelineChanges
    /// Reason why a provider must not be called, by the rules of egress; nil if it may be.
    package var providerProblem: @Sendable (ProviderURL) async -> String?
    /// Sends a provider a test request, signed with the secrets.
    package var askProvider: @Sendable (_ url: String, _ secrets: [[UInt8]]) async -> ProviderTrial = { _, _ in
        ProviderTrial()
    }
    /// Answers options and defaults; nil: there are none.
    package var configurations: (any ConfigurationProvider)?
    /// Rules by which dead letters are replayed.
    package var ingest = IngestConfiguration()
    /// Records what devices have been served; nil: nobody asks.
    package var fetches: FetchRecorder?

    package init(
        keys: TokenKeyStore? = nil, events: EventOutlet? = nil,
        lookup: EventLookup = EventLookup(reader: nil, topics: []), changes: TimelineChanges = TimelineChanges(),
        providerProblem: @escaping @Sendable (ProviderURL) async -> String? = { _ in nil }
    ) {
        self.providerProblem = providerProblem
        self.keys = keys
        self.events = events
        self.lookup = lookup
        self.changes = changes
    }
}

/// Dependencies of the routes.
struct APIParts: Sendable {
    let store: WidgetStore
    let directory: DirectoryCache
    let resources: APIResources
    /// Longest wait for the outcome of an event.
    let outcomeWait: Duration

    var changes: TimelineChanges { resources.changes }

    func outlet() throws(Problem) -> EventOutlet {
        guard let events = resources.events else { throw .eventsUnavailable }
        return events
    }
}

/// Result of a test request to a provider.
package struct ProviderTrial: Hashable, Sendable {
    /// Class of the failure; nil if the provider accepts the request.
    package var reason: String?
    package var message: String?
    /// Status of the answer, if the provider refuses the request by it.
    package var status: Int?

    package init(reason: String? = nil, message: String? = nil, status: Int? = nil) {
        self.reason = reason
        self.message = message
        self.status = status
    }
}

extension APICall {
    /// The caller's trace context, for the event.
    var traceparent: String? {
        HTTPField.Name("traceparent").flatMap { request.headers[$0] }.flatMap {
            $0.utf8.count <= 256 && !Text.containsControlCharacter($0) ? $0 : nil
        }
    }
}
