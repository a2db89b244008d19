package import WidgetModel

/// A provider's answer for one timeline, as far as the rules read it.
package struct SimulatedAnswer: Sendable {
    package var policy: ReloadPolicy
    package var lastEntry: Timestamp
    package var hash: ContentHash
    package var lints: TimelineLints = []
    /// Nil for a kind whose entries carry no relevance.
    package var relevance: RelevanceCurve?
}

extension SimulatedAnswer {
    /// Reads a parsed answer of a virtual time, to which its dates are moved.
    package init(_ parsed: ParsedTimeline, at now: Timestamp, movedBy shift: Duration) {
        var policy = parsed.policy
        if case .after(let date) = policy { policy = .after(date + shift) }
        let curve = (try? RelevanceCurve(timeline: parsed.content)) ?? RelevanceCurve([])
        let points = curve.points.map {
            RelevanceCurve.Point(date: $0.date + shift, score: $0.score, duration: $0.duration)
        }
        self.init(
            policy: policy, lastEntry: parsed.lastEntryDate + shift, hash: parsed.hash(at: now - shift),
            lints: parsed.lints,
            relevance: points.isEmpty ? nil : RelevanceCurve(points))
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
