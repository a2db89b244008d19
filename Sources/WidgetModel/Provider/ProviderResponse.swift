package import JSON

/// Bounds of a provider's answer for one timeline.
package struct ProviderLimits: Hashable, Sendable {
    package var maximumEntries: Int
    /// Limit of the canonical form that is stored.
    package var maximumContentBytes: Int

    package init(maximumEntries: Int = 1000, maximumContentBytes: Int = 262_144) {
        self.maximumEntries = maximumEntries
        self.maximumContentBytes = maximumContentBytes
    }
}

/// A timeline requested from a provider.
package struct RequestedTimeline: Sendable {
    package let id: TimelineID
    /// Volatile fields of the timeline's kind.
    package let volatileFields: VolatileFields
    /// Family of the widgets; nil if it is unknown or widgets of several families show the timeline.
    package let family: WidgetFamily?

    package init(_ id: TimelineID, volatileFields: VolatileFields = .none, family: WidgetFamily? = nil) {
        self.id = id
        self.volatileFields = volatileFields
        self.family = family
    }
}

/// A provider's timeline, ready to be stored.
package struct ParsedTimeline: Hashable, Sendable {
    package let policy: ReloadPolicy
    package let firstEntryDate: Timestamp
    package let lastEntryDate: Timestamp
    package let entryCount: Int
    package let lints: TimelineLints
    /// Canonical JSON (RFC 8785) `{"entries": […], "policy": …}`. Entries are sorted by date, those with equal dates in
    /// the provider's order. Dates are in UTC.
    package let content: [UInt8]
    /// Hash of the entries without the kind's volatile fields: equal hashes mean that nothing visible has changed. The
    /// policy is left out, since it is not visible. Otherwise a provider that answers `after` an hour from now would
    /// change its timeline each time. An entry without relevance that shows the same as the one before it is left out.
    package let hash: ContentHash
    /// The same without the date of the first entry, which nobody sees once its time has come. Nil if the first entry has
    /// relevance, which begins at the date.
    var undatedHash: ContentHash?
}

extension ParsedTimeline {
    /// Time by which the clocks of providers may be ahead.
    private static let clockTolerance = Duration.seconds(10)

    /// The hash of the timeline while its first entry is shown, nil before its date.
    private func shownHash(at time: Timestamp) -> ContentHash? {
        firstEntryDate <= time + Self.clockTolerance ? undatedHash : nil
    }

    /// The hash to store for an answer of this time.
    package func hash(at time: Timestamp) -> ContentHash { shownHash(at: time) ?? hash }

    /// Whether devices show the same from a time on as by the timeline with a stored hash.
    ///
    /// The first entries of both are shown by then, if their dates are left out. So a provider that dates the first entry
    /// by the request changes nothing.
    package func showsTheSame(as stored: ContentHash?, at time: Timestamp) -> Bool {
        guard let stored else { return false }
        return stored == hash || stored == shownHash(at: time)
    }
}

/// Answer to a request for timelines: `{"timelines": [{"id", "policy", "entries"} | {"id", "error"}]}`.
package typealias ProviderResponse = ProviderAnswer<ParsedTimeline>

extension ProviderAnswer<ParsedTimeline> {
    /// Reads a response body.
    ///
    /// - Parameter requested: the requested timelines, of any kinds.
    package static func parse(
        _ bytes: [UInt8], requested: [RequestedTimeline], limits: ProviderLimits = .init()
    ) throws(JSONError) -> ProviderResponse {
        try ProviderResponse(
            bytes, list: "timelines", requested: requested.map(\.id),
            parser: TimelineParser(limits: limits, requested: requested))
    }
}

extension ProviderAnswer {
    /// - Throws: ``ProviderFailure`` for an invalid answer.
    package static func parse(_ body: () throws(JSONError) -> Self) throws(ProviderFailure) -> Self {
        do throws(JSONError) {
            return try body()
        } catch {
            throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
        }
    }
}
