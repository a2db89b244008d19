/// What a provider is asked for: the last part of the path of the request.
package enum ProviderEndpoint: String, CaseIterable, Hashable, Sendable {
    /// Whole timelines.
    case timelines
    /// One entry each, as fast as possible, for what has no timeline yet.
    case snapshot
    /// What is shown where there is no content at all; without user data.
    case placeholder

    /// To be appended to the provider's URL.
    package var path: String { "/\(rawValue)" }
}
