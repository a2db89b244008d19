/// Endpoint of a provider: the last part of the path.
package enum ProviderEndpoint: String, CaseIterable, Hashable, Sendable {
    /// Whole timelines.
    case timelines
    /// One entry each, as fast as possible, for what has no timeline yet.
    case snapshot
    /// Content without user data for widgets that have no other.
    case placeholder

    /// To be appended to the provider's URL.
    package var path: String { "/\(rawValue)" }
}
