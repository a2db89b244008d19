import HTTPTypes
import Hummingbird
import ReloadIngest
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Dependencies of the routes.
struct APIParts: Sendable {
    let store: WidgetStore
    let directory: DirectoryCache
    /// Publisher of events; without it, changes are refused.
    let events: EventOutlet?
    let lookup: EventLookup
    let changes: TimelineChanges
    /// Reason why a provider must not be called; nil if it may be.
    var providerProblem: @Sendable (ProviderURL) async -> String? = { _ in nil }
    /// Sends a provider a test request, signed with the secrets.
    var askProvider: @Sendable (_ url: String, _ secrets: [[UInt8]]) async -> ProviderTrial = { _, _ in ProviderTrial()
    }
    /// Rules by which dead letters are replayed.
    var ingest = IngestConfiguration()
    /// Longest wait for the outcome of an event.
    let outcomeWait: Duration

    func outlet() throws(Problem) -> EventOutlet {
        guard let events else { throw .eventsUnavailable }
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
    /// The party that the call's places among waiting readers count for.
    var holder: TimelineChanges.Holder { TimelineChanges.Holder(app: app, user: user) }

    /// The caller's trace context, for the event.
    var traceparent: String? {
        HTTPField.Name("traceparent").flatMap { request.headers[$0] }.flatMap {
            $0.utf8.count <= 256 && !Text.containsControlCharacter($0) ? $0 : nil
        }
    }
}
