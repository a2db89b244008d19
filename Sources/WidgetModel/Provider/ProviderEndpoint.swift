/// Endpoint of a provider: the last part of the path.
package enum ProviderEndpoint: String, CaseIterable, Hashable, Sendable {
    /// Whole timelines.
    case timelines
    /// An entry for each timeline without content, as fast as possible.
    case snapshot
    /// Content without user data for widgets that have no other.
    case placeholder
    /// Options of a parameter.
    case options
    /// Defaults of a new widget's parameters.
    case defaults

    /// To be appended to the provider's URL.
    package var path: String { "/\(rawValue)" }
}
