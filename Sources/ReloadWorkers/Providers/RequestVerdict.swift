import WidgetModel

/// Outcome of a whole request for the provider's health. Errors of single timelines are part of an answer.
enum RequestVerdict: Hashable, Sendable {
    /// - Parameter slowly: whether it took more than its share of the timeout.
    case answered(slowly: Bool)
    /// The provider or the network is overloaded.
    case overloaded(rest: Duration?)
    /// The provider does not serve such requests.
    case unavailable(rest: Duration?)
    /// The batch was too large.
    case tooLarge
    /// The provider fails for the content, which may be one poisonous timeline or all.
    case blamesContent

    init(_ failure: ProviderFailure) {
        switch (failure.reason, failure.status) {
        case (.timeout, _), (.connection, _), (.status, 429), (.status, 503):
            self = .overloaded(rest: failure.retryAfter)
        case (.status, 413), (.status, 414), (.status, 431):
            self = .tooLarge
        case (.invalid, _), (.tooLarge, _), (.status, 400), (.status, 422), (.status, 500):
            self = .blamesContent
        default:
            self = .unavailable(rest: failure.retryAfter)
        }
    }
}

extension ProviderFailure {
    /// Whether the request may have crashed or blocked the provider. An outage looks the same, so it counts only after
    /// several attempts.
    var mayBreakProvider: Bool {
        guard retryAfter == nil else { return false }
        switch (reason, status) {
        case (.timeout, _), (.connection, _), (.status, 502), (.status, 504): return true
        default: return false
        }
    }
}
