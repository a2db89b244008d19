package import WidgetModel

/// A decision as it is published, with its facts (design, section 6, rule 6).
package struct DecisionRecord: Hashable, Sendable {
    /// Nil for a request that was refused before a timeline was known.
    package var timeline: TimelineID?
    /// Nil when it could not be read.
    package var app: String?
    package var kind: String?
    /// `nil` for a shared timeline.
    package var user: String?
    package var decision: Decision
    package var rule: ReloadRule
    package var reason: ReloadReason?
    package var lane: ReloadLane?
    /// The timeline's own generations.
    package var requested: Int64?
    package var rendered: Int64?
    /// The event that caused it; nil: the policy.
    package var cause: EventPosition?
    /// When it is due, or due again; `nil`: not known, or only on request.
    package var dueAt: Timestamp?
    /// When a budgeted reason may reload it.
    package var eligibleAt: Timestamp?
    /// The claim that ended with it.
    package var claim: Int64?
    package var fetchTime: Duration?
    /// Of a refused request: the class of the error.
    package var error: String?

    package init(
        timeline: TimelineID? = nil, app: String?, kind: String? = nil, user: String? = nil, decision: Decision,
        rule: ReloadRule, reason: ReloadReason? = nil, lane: ReloadLane? = nil, requested: Int64? = nil,
        rendered: Int64? = nil, cause: EventPosition? = nil, dueAt: Timestamp? = nil, eligibleAt: Timestamp? = nil,
        claim: Int64? = nil, fetchTime: Duration? = nil, error: String? = nil
    ) {
        self.timeline = timeline
        self.app = app
        self.kind = kind
        self.user = user
        self.decision = decision
        self.rule = rule
        self.reason = reason
        self.lane = lane
        self.requested = requested
        self.rendered = rendered
        self.cause = cause
        self.dueAt = dueAt
        self.eligibleAt = eligibleAt
        self.claim = claim
        self.fetchTime = fetchTime
        self.error = error
    }
}
