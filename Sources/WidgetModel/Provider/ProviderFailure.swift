/// Failure to fetch a timeline or a whole batch.
package struct ProviderFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The URL is not allowed, or its host has an address outside the allow-list.
        case refused
        case unresolved
        /// No connection, or it was lost before the answer was complete.
        case connection
        /// No complete answer within the kind's timeout.
        case timeout
        case status
        /// The answer is longer than the limit.
        case tooLarge
        /// The answer, or this timeline in it, violates the contract.
        case invalid
        case missing
        case duplicate
        /// The provider reported a failure for this timeline.
        case provider
        /// The timeline could not be stored, or is too large to publish.
        case storage
    }

    package var reason: Reason
    /// Description of the failure, its place and the expectation, without secrets and content.
    package var message: String
    /// Time from the request to the failure.
    package var fetchTime: Duration?
    /// Delay requested by the provider.
    package var retryAfter: Duration?
    /// Status of the answer, if it caused the failure.
    package var status: Int?
    /// Whether the provider answered the rest of the batch, so that it fails for this timeline.
    package var isPoison = false

    package init(_ reason: Reason, _ message: String, retryAfter: Duration? = nil, status: Int? = nil) {
        (self.reason, self.message, self.retryAfter, self.status) = (reason, message, retryAfter, status)
    }
}

extension ProviderFailure.Reason {
    /// Stored form.
    package var rule: ReloadRule {
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
    /// Stored form.
    package var rule: ReloadRule { isPoison ? .providerPoison : reason.rule }

    /// Whether the provider has no such endpoint.
    package var saysAbsent: Bool { status == 404 || status == 405 || status == 501 }
}

extension ProviderFailure {
    /// Failure of one element of an answer; nil without one.
    package init?<Value>(_ outcome: ElementOutcome<Value>) {
        switch outcome {
        case .value: return nil
        case .failed(let code, let message, let retryAfter):
            self.init(.provider, "\(code): \(message)", retryAfter: retryAfter)
        case .missing: self.init(.missing, "the answer leaves it out")
        case .duplicate: self.init(.duplicate, "the answer has it more than once")
        case .invalid(let error): self.init(.invalid, "\(error)")
        }
    }
}
