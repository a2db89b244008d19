import WidgetModel

/// Why a timeline, or a whole batch, was not fetched.
package struct ProviderFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The URL is none that may be called, or its host has an address that the allow-list does not permit.
        case refused
        case unresolved
        /// No connection, or it was lost before the answer was complete.
        case connection
        /// No complete answer within the kind's timeout.
        case timeout
        case status
        /// The answer is longer than the limit.
        case tooLarge
        /// The answer, or this timeline in it, is not what the contract says.
        case invalid
        case missing
        case duplicate
        /// The provider said that it failed for this timeline.
        case provider
        /// The timeline could not be stored, or is too large to be published.
        case storage
    }

    package var reason: Reason
    /// Description of the failure, its place and the expectation; without secrets and without content.
    package var message: String
    /// From the request to its failure.
    package var fetchTime: Duration?
    /// How long the provider asked to be left alone with it.
    package var retryAfter: Duration?
    /// The status that was answered, if that is why.
    package var status: Int?
    /// The rest of its batch was answered, so it is this timeline that the provider fails for.
    var isPoison = false

    package init(_ reason: Reason, _ message: String, retryAfter: Duration? = nil, status: Int? = nil) {
        self.reason = reason
        self.message = message
        self.retryAfter = retryAfter
        self.status = status
    }
}

extension ProviderFailure.Reason {
    /// As the hot row keeps it.
    var rule: ReloadRule {
        switch self {
        case .refused: .providerRefused
        case .unresolved: .providerUnresolved
        case .connection: .providerConnection
        case .timeout: .providerTimeout
        case .status: .providerStatus
        case .tooLarge: .providerTooLarge
        case .invalid: .providerInvalid
        case .missing: .providerMissing
        case .duplicate: .providerDuplicate
        case .provider: .providerError
        case .storage: .storage
        }
    }
}

extension ProviderFailure {
    /// As the hot row keeps it.
    var rule: ReloadRule { isPoison ? .providerPoison : reason.rule }

    /// Whether the provider says that it has no such endpoint.
    var saysAbsent: Bool { status == 404 || status == 405 || status == 501 }
}
