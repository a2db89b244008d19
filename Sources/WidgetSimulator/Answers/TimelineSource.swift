// SPDX-License-Identifier: Apache-2.0

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

/// Synthetic providers: entries for some time, then a reload by policy, and content that changes from time to time.
package struct SyntheticSource: TimelineSource {
    /// Distance of a timeline's reloads by policy.
    package var refresh: Duration
    /// Distance for certain kinds, by ``KindTally/title``.
    package var refreshOfKinds: [String: Duration] = [:]
    /// Mean time between two changes of a timeline's content.
    private static let changeEvery = Duration.seconds(2_400)

    package init(refresh: Duration = .seconds(1_800)) {
        self.refresh = max(refresh, .seconds(60))
    }

    package mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) {
        let period = Self.changeEvery.wholeMicroseconds
        for target in targets {
            // Timelines differ in phase, so that not all change at once.
            let phase = Int64(target.id.high % UInt64(period))
            let version = UInt64(bitPattern: (now.microseconds + phase) / period)
            let kind = refreshOfKinds.isEmpty ? nil : refreshOfKinds["\(target.identity.app) \(target.identity.kind)"]
            let lastEntry = now + (kind ?? refresh)
            let isAtEnd = target.id.high & 1 == 0
            outcomes.append(
                .answer(
                    SimulatedAnswer(
                        policy: isAtEnd ? .atEnd : .after(lastEntry), lastEntry: lastEntry,
                        hash: ContentHash(high: target.id.low, low: version))))
        }
    }
}
