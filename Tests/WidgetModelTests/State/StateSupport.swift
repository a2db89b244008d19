@testable import WidgetModel

extension TimelineStateMachine {
    /// A timeline that was placed and rendered for the first time at a time, with nothing spent.
    static func rendered(
        at time: Timestamp, policy: ReloadPolicy, isShared: Bool = false, rules: ReloadRules? = nil,
        timeline id: TimelineID = .punctual
    ) -> TimelineStateMachine {
        var timeline = TimelineStateMachine(placedAt: time, lane: .interactive, in: ScopeGenerations())
        guard let claim = timeline.claim(number: 1, lease: .minutes(1), in: ScopeGenerations(), at: time) else {
            return timeline
        }
        let rules = rules ?? .test(isShared: isShared)
        _ = timeline.complete(
            rules.completion(
                of: claim, timeline: id, policy: policy, lastEntry: time, ledger: claim.state.ledger,
                publishedHash: ContentHash(high: 1, low: 1), at: time), at: time)
        return timeline
    }
}
