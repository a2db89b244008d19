/// Source of the dynamic options and defaults of a kind's parameters.
package protocol ConfigurationProvider: Sendable {
    /// Requests the options of a parameter with `hasDynamicOptions`. The list may be empty.
    func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> IntentOptions

    /// Requests the defaults of the parameters with `hasDynamicDefault`. Parameters without a default are absent; the
    /// values fit the definition.
    func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> WidgetConfiguration
}

/// Reason why a provider's options or defaults are not available.
package struct ConfigurationFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The rules of egress forbid requests to the provider's URL.
        case refused
        /// The connection failed, or the answer was an error.
        case failed
        /// The answer was not complete in time.
        case timeout
        /// The answer breaks the contract.
        case invalid
        /// Requests to the provider are suspended after failures.
        case resting
    }

    package var reason: Reason
    /// Description for a problem document, without secrets.
    package var message: String
    /// Time after which another attempt may succeed, if it is known.
    package var retryAfter: Duration?

    package init(_ reason: Reason, _ message: String, retryAfter: Duration? = nil) {
        self.reason = reason
        self.message = message
        self.retryAfter = retryAfter
    }
}
