package import WidgetModel

/// A provider's answer for one timeline, as far as the rules read it.
package struct SimulatedAnswer: Sendable {
    package var policy: ReloadPolicy
    package var lastEntry: Timestamp
    package var hash: ContentHash
    package var lints: TimelineLints
    /// Nil for a kind whose entries carry no relevance.
    package var relevance: RelevanceCurve?

    package init(
        policy: ReloadPolicy, lastEntry: Timestamp, hash: ContentHash, lints: TimelineLints = [],
        relevance: RelevanceCurve? = nil
    ) {
        self.policy = policy
        self.lastEntry = lastEntry
        self.hash = hash
        self.lints = lints
        self.relevance = relevance
    }
}

/// Outcome of a fetch of one timeline.
package enum SimulatedFetch: Sendable {
    case answer(SimulatedAnswer)
    case failure(ReloadRule, retryAfter: Duration?)
}

/// The providers of a simulation.
package protocol TimelineSource {
    /// Answers one request. All targets have the same provider.
    ///
    /// - Parameters:
    ///   - now: the virtual time.
    ///   - outcomes: gets one element for each target.
    mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) async throws
}
