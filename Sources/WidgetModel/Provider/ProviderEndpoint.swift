/// Endpoint of a provider: the last part of the path.
package enum ProviderEndpoint: String, CaseIterable, Hashable, Sendable {
    /// Whole timelines.
    case timelines
    /// An entry for each timeline without content, needed as fast as possible.
    case snapshot
    /// Content without user data for widgets that have no other content.
    case placeholder
    /// Options of a parameter.
    case options
    /// Defaults of a new widget's parameters.
    case defaults

    /// Path to append to the provider's URL.
    package var path: String { "/\(rawValue)" }
}
