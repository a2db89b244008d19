import WidgetModel

/// Result of a whole request for its provider's health. Errors of single timelines are part of an answer.
enum RequestVerdict: Hashable, Sendable {
    /// - Parameter slowly: it took more than its share of the timeout.
    case answered(slowly: Bool)
    /// The provider, or the way to it, does not keep up.
    case overloaded(rest: Duration?)
    /// It is not there for requests of this sort.
    case unavailable(rest: Duration?)
    /// The batch was too large: the provider is well.
    case tooLarge
    /// It fails for what it was asked, which may be one poisonous timeline or all of it.
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
    /// Whether what was asked for may be what breaks the provider, or keeps it busy for ever, rather than its state. Too
    /// vague a sign for timelines that are asked for the first time, for an outage looks the same.
    var mayBreakProvider: Bool {
        guard retryAfter == nil else { return false }
        switch (reason, status) {
        case (.timeout, _), (.connection, _), (.status, 502), (.status, 504): return true
        default: return false
        }
    }
}
