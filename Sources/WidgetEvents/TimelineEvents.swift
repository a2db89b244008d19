// SPDX-License-Identifier: Apache-2.0

import JSON
package import WidgetModel

/// The event of changed timeline content (`freshet.timeline.updated.v1`).
package struct TimelineUpdatedEvent: Hashable, Sendable {
    package static let type = "freshet.timeline.updated.v1"

    package var timeline: TimelineID
    package var identity: TimelineIdentity
    /// Revision of the content. Consumers ignore lower ones than they have seen.
    package var revision: Int64
    package var storedAt: Timestamp?
    /// Canonical JSON `{"entries": […], "policy": …}`, as it is stored.
    package var content: [UInt8]

    package init(
        timeline: TimelineID, identity: TimelineIdentity, revision: Int64, storedAt: Timestamp?, content: [UInt8]
    ) {
        self.timeline = timeline
        self.identity = identity
        self.revision = revision
        self.storedAt = storedAt
        self.content = content
    }

    /// The event's data: identity, revision, and the members of the content.
    package var data: [UInt8] {
        JSONWriter.object(capacity: content.count + 320) { members in
            members.append("timeline", timeline.description)
            members.append("revision", revision)
            members.append("storedAt", storedAt?.rfc3339)
            members.append("app", identity.app)
            members.append("kind", identity.kind)
            members.append("family", identity.family?.name)
            members.append("configuration", json: identity.configuration.canonical.utf8)
            members.append("locale", identity.locale)
            members.append("timeZone", identity.timeZone)
            members.append("user", identity.user)
            members.appendMembers(of: content)
        }
    }
}

extension EncodedEvent {
    /// Type of the event of a removed timeline: a tombstone, so that compaction removes the timeline. The headers have
    /// the event's attributes.
    package static let timelineRemoved = "freshet.timeline.removed.v1"
    /// Type of the event of a stack's new schedule, or of its end: a tombstone.
    package static let stackScheduled = "freshet.stack.scheduled.v1"
    /// The header with the revision in decimal digits.
    package static let revisionHeader = "freshet-revision"

    /// A message on the topics of timelines and schedules, with the id of the timeline or the stack as its key. The
    /// event's id is made of that id and the revision, so that repeated messages have the same id.
    ///
    /// - Parameter value: nil for a tombstone.
    package init(
        _ type: String, of id: TimelineID, revision: Int64, source: String, time: Timestamp? = nil, value: [UInt8]?
    ) {
        let headers = Self.headers(
            type: type, id: "\(id):\(revision)", source: source, time: time,
            [("ce_subject", id.description), (Self.revisionHeader, "\(revision)")], hasData: value != nil)
        self.init(key: Array(id.description.utf8), headers: headers, value: value)
    }
}

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
    /// Time at which it is due, or due again; `nil`: not known, or only on request.
    package var dueAt: Timestamp?
    /// Time from which a budgeted reason may reload it.
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
        let headers = EncodedEvent.headers(
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
        JSONWriter.object(capacity: 512) { members in
            members.append("timeline", timeline?.description)
            members.append("app", app)
            members.append("kind", kind)
            members.append("user", user)
            members.append("decision", decision.name)
            members.append("rule", rule.name)
            members.append("reason", reason?.name)
            members.append("lane", lane?.name)
            members.append("requested", requested)
            members.append("rendered", rendered)
            if let cause {
                let value: JSONValue = [
                    "topic": .string(Self.name(of: cause, topics)), "partition": .count(cause.partition),
                    "offset": .count(cause.offset),
                ]
                members.append("cause", value: value)
            }
            members.append("dueAt", dueAt.flatMap(Self.text))
            members.append("eligibleAt", eligibleAt.flatMap(Self.text))
            members.append("claim", claim)
            members.append("fetchMilliseconds", fetchTime.map { $0.wholeMicroseconds / 1_000 })
            members.append("error", error)
        }
    }

    /// The time as text; nil for the distant past and future.
    private static func text(_ time: Timestamp) -> String? {
        time == .distantFuture || time == .distantPast ? nil : time.rfc3339
    }
}
