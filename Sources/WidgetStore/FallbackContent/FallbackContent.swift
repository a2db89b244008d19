package import WidgetModel

/// Content that is shown in place of a timeline while there is none.
package enum FallbackContent: Hashable, Sendable {
    /// Canonical JSON of one entry, and when it was stored.
    case snapshot(entry: String, storedAt: Timestamp)
    /// JSON of the content, and when the provider gave it: `nil` for the manifest's.
    case placeholder(content: String, fetchedAt: Timestamp?)
}
