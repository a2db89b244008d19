package import WidgetModel

/// The event of a decision on a reload (`freshet.timeline.decided.v1`), published if it is enabled. Events may be lost.
package struct TimelineDecidedEvent: Hashable, Sendable {
    package static let type = "freshet.timeline.decided.v1"

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
    /// Error code of a refused request.
    package var error: String?

    package init(decision: Decision, rule: ReloadRule) {
        self.decision = decision
        self.rule = rule
    }

    /// Binary mode; the key is the timeline's id or, for a refused request, the app's.
    ///
    /// - Parameters:
    ///   - time: time of the decision.
    ///   - topics: names of the input topics, in the order of `EventPosition.topic`.
    package func encode(source: String, time: Timestamp, topics: [String]) -> EncodedEvent {
        let subject = timeline?.description
        let headers = EventEncoder.headers(
            type: Self.type, id: id(topics), source: source, time: time, [("ce_subject", subject)])
        return EncodedEvent(key: Array((subject ?? app ?? "").utf8), headers: headers, value: data(topics))
    }

    /// Id made of timeline, claim or cause, and decision, so that repeated messages have the same id.
    private func id(_ topics: [String]) -> String {
        var parts = [timeline?.description ?? "refused"]
        if let claim {
            parts.append("\(claim)")
        } else if let cause {
            parts.append("\(Self.name(of: cause, topics))-\(cause.partition)-\(cause.offset)")
        }
        parts.append(decision.name)
        return parts.joined(separator: ":")
    }

    private static func name(of cause: EventPosition, _ topics: [String]) -> String {
        topics.indices.contains(Int(cause.topic)) ? topics[Int(cause.topic)] : "\(cause.topic)"
    }

    func data(_ topics: [String]) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(512)
        var members = MemberWriter()
        if let timeline { members.append("timeline", timeline.description, to: &out) }
        if let app { members.append("app", app, to: &out) }
        if let kind { members.append("kind", kind, to: &out) }
        if let user { members.append("user", user, to: &out) }
        members.append("decision", decision.name, to: &out)
        members.append("rule", rule.name, to: &out)
        if let reason { members.append("reason", reason.name, to: &out) }
        if let lane { members.append("lane", lane.name, to: &out) }
        if let requested { members.append("requested", raw: String(requested).utf8, to: &out) }
        if let rendered { members.append("rendered", raw: String(rendered).utf8, to: &out) }
        if let cause {
            let value: JSONValue = [
                "topic": .string(Self.name(of: cause, topics)), "partition": .number(JSONNumber(Int(cause.partition))),
                "offset": .number(JSONNumber(Int(cause.offset))),
            ]
            members.append("cause", raw: value.encoded, to: &out)
        }
        if let dueAt, let text = Self.text(dueAt) { members.append("dueAt", text, to: &out) }
        if let eligibleAt, let text = Self.text(eligibleAt) { members.append("eligibleAt", text, to: &out) }
        if let claim { members.append("claim", raw: String(claim).utf8, to: &out) }
        if let fetchTime {
            members.append("fetchMilliseconds", raw: String(fetchTime.wholeMicroseconds / 1_000).utf8, to: &out)
        }
        if let error { members.append("error", error, to: &out) }
        members.end(&out)
        return out
    }

    /// The time as text; nil for the distant past and future.
    private static func text(_ time: Timestamp) -> String? {
        time == .distantFuture || time == .distantPast ? nil : time.rfc3339
    }
}
