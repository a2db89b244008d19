package import WidgetModel

/// The event of a decision on a reload (`freshet.timeline.decided.v1`), published if it is enabled. Events may be lost.
package struct TimelineDecidedEvent: Hashable, Sendable {
    package static let type = "freshet.timeline.decided.v1"

    /// The event that a decision is about.
    package struct Cause: Hashable, Sendable {
        package var topic: String
        package var partition: Int32
        package var offset: Int64

        package init(topic: String, partition: Int32, offset: Int64) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
        }
    }

    /// Nil for a refused request.
    package var timeline: TimelineID?
    package var app: String?
    package var kind: String?
    package var user: String?
    package var decision: Decision
    package var rule: ReloadRule
    package var reason: ReloadReason?
    package var lane: ReloadLane?
    package var requested: Int64?
    package var rendered: Int64?
    package var cause: Cause?
    package var dueAt: Timestamp?
    package var eligibleAt: Timestamp?
    package var claim: Int64?
    package var fetchMilliseconds: Int64?
    /// Error code of a refused request.
    package var error: String?

    package init(decision: Decision, rule: ReloadRule) {
        self.decision = decision
        self.rule = rule
    }

    /// Binary mode; the key is the timeline's id or, for a refused request, the app's.
    ///
    /// - Parameter time: time of the decision.
    package func encode(source: String, time: Timestamp) -> EncodedEvent {
        let subject = timeline?.description
        var headers: [(name: String, value: [UInt8])] = [
            ("ce_specversion", Array("1.0".utf8)),
            ("ce_id", Array(id.utf8)),
            ("ce_source", Array(source.utf8)),
            ("ce_type", Array(Self.type.utf8)),
            ("ce_time", Array(time.rfc3339.utf8)),
        ]
        if let subject { headers.append(("ce_subject", Array(subject.utf8))) }
        headers.append(("content-type", Array("application/json".utf8)))
        return EncodedEvent(key: Array((subject ?? app ?? "").utf8), headers: headers, value: data)
    }

    /// Id made of timeline, claim or cause, and decision, so that repeated messages have the same id.
    var id: String {
        var parts = [timeline?.description ?? "refused"]
        if let claim {
            parts.append("\(claim)")
        } else if let cause {
            parts.append("\(cause.topic)-\(cause.partition)-\(cause.offset)")
        }
        parts.append(decision.name)
        return parts.joined(separator: ":")
    }

    package var data: [UInt8] {
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
                "topic": .string(cause.topic), "partition": .number(JSONNumber(Int(cause.partition))),
                "offset": .number(JSONNumber(Int(cause.offset))),
            ]
            members.append("cause", raw: value.encoded, to: &out)
        }
        if let dueAt, let text = Self.text(dueAt) { members.append("dueAt", text, to: &out) }
        if let eligibleAt, let text = Self.text(eligibleAt) { members.append("eligibleAt", text, to: &out) }
        if let claim { members.append("claim", raw: String(claim).utf8, to: &out) }
        if let fetchMilliseconds {
            members.append("fetchMilliseconds", raw: String(fetchMilliseconds).utf8, to: &out)
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
