/// Answers the dynamic options and defaults of a kind's parameters.
package protocol ConfigurationProvider: Sendable {
    /// Options of a parameter with `hasDynamicOptions`. An empty answer is the provider's; a failure is thrown.
    func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> IntentOptions

    /// Defaults of the parameters with `hasDynamicDefault`, as far as the provider has one for them; all fit the definition.
    func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> WidgetConfiguration
}

/// Reason why a provider's options or defaults are not available.
package struct ConfigurationFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The provider's URL must not be called.
        case refused
        /// No connection, or the answer is an error.
        case failed
        /// No complete answer in time.
        case timeout
        /// The answer breaks the contract.
        case invalid
        /// The provider has failed lately and is not asked for a while.
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
