/// Answers the dynamic options and defaults of a kind's parameters.
package protocol ConfigurationProvider: Sendable {
    /// Options of a parameter with `hasDynamicOptions`. A provider may answer with none; a failure is thrown.
    func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> IntentOptions

    /// Defaults of the parameters with `hasDynamicDefault` for which the provider has one. All of them fit the
    /// definition.
    func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> WidgetConfiguration
}

/// Reason why a provider's options or defaults are not available.
package struct ConfigurationFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The provider's URL must not be called.
        case refused
        /// No connection, or an answer with an error.
        case failed
        /// No complete answer in time.
        case timeout
        /// The answer breaks the contract.
        case invalid
        /// The provider has failed recently and gets no requests for a while.
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
