/// Bounds of what a provider may answer for one timeline.
package struct ProviderLimits: Hashable, Sendable {
    package var maximumEntries: Int
    /// Of the canonical form that is stored.
    package var maximumContentBytes: Int

    package init(maximumEntries: Int = 1000, maximumContentBytes: Int = 262_144) {
        self.maximumEntries = maximumEntries
        self.maximumContentBytes = maximumContentBytes
    }
}

/// A timeline that a provider was asked for.
package struct RequestedTimeline: Sendable {
    package let id: TimelineID
    /// Of its kind.
    package let volatileFields: VolatileFields

    package init(_ id: TimelineID, volatileFields: VolatileFields = .none) {
        self.id = id
        self.volatileFields = volatileFields
    }
}

/// A timeline as a provider gave it, ready to be stored.
package struct ParsedTimeline: Hashable, Sendable {
    package let policy: ReloadPolicy
    package let firstEntryDate: Timestamp
    package let lastEntryDate: Timestamp
    package let entryCount: Int
    package let lints: TimelineLints
    /// Canonical JSON (RFC 8785) `{"entries": […], "policy": …}`: entries sorted by date, those of equal dates as the
    /// provider gave them, dates in UTC.
    package let content: [UInt8]
    /// Of the entries without the kind's volatile fields: equal hashes mean that nothing visible has changed. The policy is
    /// left out, for it is none of what people see: a provider that says `after` an hour from now each time would
    /// otherwise change its timeline each time.
    package let hash: ContentHash
}

/// Outcome of one requested timeline.
package enum ProviderOutcome: ElementOutcome {
    case timeline(ParsedTimeline)
    /// The provider could not make it. `retryAfter` is at most a day.
    case failed(code: String, message: String, retryAfter: Duration?)
    /// The response does not have it.
    case missing
    /// The response has it more than once, so that none can be trusted.
    case duplicate
    /// The element is no timeline; the pointer is into the response.
    case invalid(ModelError)
}

/// Answer to a request for timelines: `{"timelines": [{"id", "policy", "entries"} | {"id", "error"}]}`.
package typealias ProviderResponse = ProviderAnswer<ProviderOutcome>

extension ProviderAnswer where Outcome == ProviderOutcome {
    /// Reads a response body; see ``init(_:in:list:requested:parser:)``.
    ///
    /// - Parameter requested: what was asked for, of any kinds.
    package static func parse(
        _ bytes: [UInt8], in range: Range<Int>? = nil, requested: [RequestedTimeline], limits: ProviderLimits = .init()
    ) throws(JSONError) -> ProviderResponse {
        try ProviderResponse(
            bytes, in: range, list: "timelines", requested: requested.lazy.map(\.id),
            parser: TimelineParser(limits: limits, requested: requested))
    }
}

extension ElementError {
    var outcome: ProviderOutcome { .failed(code: code, message: message, retryAfter: retryAfter) }
}
