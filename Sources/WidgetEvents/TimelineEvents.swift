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
        var encoder = TimelineEncoder(source: "")
        return encoder.encode(self).value ?? []
    }
}

/// Encodes the events of changed timelines, one after the other. What an event has in common with the one before it is
/// copied instead of being encoded again: most timelines of a batch are of one kind and environment.
///
/// It does without `JSONWriter`, since each changed timeline passes here.
package struct TimelineEncoder: Sendable {
    /// Part of an event's data, with the values that it is made of.
    private struct Part: Sendable {
        var first: String?
        var second: String?
        var bytes: [UInt8] = []

        func isMade(of first: String?, _ second: String?) -> Bool {
            Text.equal(self.first, first) && Text.equal(self.second, second)
        }
    }

    private let headers: TimelineHeaders
    private var kind = Part()
    private var family: WidgetFamily?
    private var environment = Part()

    private static let timeline = Array(#"{"timeline":""#.utf8)
    private static let revision = Array(#"","revision":"#.utf8)
    private static let storedAt = Array(#","storedAt":"#.utf8)
    private static let user = Array(#","user":"#.utf8)

    package init(source: String) {
        headers = TimelineHeaders(type: TimelineUpdatedEvent.type, source: source)
    }

    /// Binary mode; the key is the timeline's id.
    package mutating func encode(_ event: TimelineUpdatedEvent) -> EncodedEvent {
        update(event.identity)
        let id = EventID(event.timeline, event.revision)
        let configuration = event.identity.configuration.canonical
        var bytes: [UInt8] = []
        bytes.reserveCapacity(event.content.count + configuration.utf8.count + 768)
        bytes.append(contentsOf: Self.timeline)
        bytes.append(contentsOf: id.subject)
        bytes.append(contentsOf: Self.revision)
        bytes.append(contentsOf: id.revision)
        if let storedAt = event.storedAt {
            bytes.append(contentsOf: Self.storedAt)
            bytes.append(json: storedAt.rfc3339)
        }
        bytes.append(contentsOf: kind.bytes)
        bytes.append(contentsOf: configuration.utf8)
        bytes.append(contentsOf: environment.bytes)
        if let user = event.identity.user {
            bytes.append(contentsOf: Self.user)
            bytes.append(json: user)
        }
        if event.content.count > 2 {
            bytes.append(UInt8(ascii: ","))
            bytes.append(contentsOf: event.content[1..<event.content.count - 1])
        }
        bytes.append(UInt8(ascii: "}"))
        let length = bytes.count
        let count = headers.append(to: &bytes, id, time: event.storedAt, hasValue: true)
        return EncodedEvent(
            bytes: bytes, valueLength: length, keyLength: TimelineID.textLength, headerCount: count)
    }

    /// Encodes what differs from the event before.
    private mutating func update(_ identity: TimelineIdentity) {
        if kind.bytes.isEmpty || family != identity.family || !kind.isMade(of: identity.app, identity.kind) {
            kind = Part(first: identity.app, second: identity.kind)
            family = identity.family
            kind.bytes.append(member: #","app":"#, identity.app)
            kind.bytes.append(member: #","kind":"#, identity.kind)
            kind.bytes.append(member: #","family":"#, identity.family?.name)
            kind.bytes.append(contentsOf: #","configuration":"#.utf8)
        }
        if !environment.isMade(of: identity.locale, identity.timeZone) {
            environment = Part(first: identity.locale, second: identity.timeZone)
            environment.bytes.append(member: #","locale":"#, identity.locale)
            environment.bytes.append(member: #","timeZone":"#, identity.timeZone)
        }
    }
}

extension [UInt8] {
    /// Appends a member with a string; nothing for nil.
    ///
    /// - Parameter member: name with what is around it.
    fileprivate mutating func append(member: String, _ text: String?) {
        guard let text else { return }
        append(contentsOf: member.utf8)
        append(json: text)
    }
}

/// Texts of the id of a timeline or a stack, and of a revision. Together they are the event's id, so that repeated
/// messages have the same id.
struct EventID {
    fileprivate let bytes: [UInt8]

    init(_ subject: TimelineID, _ revision: Int64) {
        var bytes: [UInt8] = []
        bytes.append(addingCapacity: TimelineID.textLength + 21) { bytes in
            subject.write(to: &bytes)
            bytes.append(UInt8(ascii: ":"))
            bytes.append(decimal: revision)
        }
        self.bytes = bytes
    }

    /// Text of the id of the timeline or the stack.
    fileprivate var subject: ArraySlice<UInt8> { bytes[..<TimelineID.textLength] }
    /// The revision in decimal digits.
    fileprivate var revision: ArraySlice<UInt8> { bytes[(TimelineID.textLength + 1)...] }
}

/// Key and headers of messages on the topics of timelines and schedules. What messages of one type have in common is
/// encoded once.
struct TimelineHeaders: Sendable {
    private static let specversion = headers(("ce_specversion", "1.0"))
    private static let contentType = headers(("content-type", "application/json"))
    private static let id = Array("ce_id".utf8)
    private static let subject = {
        var bytes: [UInt8] = []
        bytes.appendLengths(name: "ce_subject".utf8.count, value: TimelineID.textLength)
        return bytes + "ce_subject".utf8
    }()
    private static let revision = Array(EncodedEvent.revisionHeader.utf8)

    /// Headers with the source and the type.
    private let origin: [UInt8]

    init(type: String, source: String) {
        origin = Self.headers(("ce_source", source), ("ce_type", type))
    }

    private static func headers(_ headers: (name: String, value: String)...) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in headers { bytes.append(header: name, value) }
        return bytes
    }

    /// Appends the key and the headers of a message, and returns the number of headers.
    ///
    /// - Parameter hasValue: false for a tombstone.
    func append(to bytes: inout [UInt8], _ id: EventID, time: Timestamp?, hasValue: Bool) -> Int {
        bytes.append(contentsOf: id.subject)
        bytes.append(contentsOf: Self.specversion)
        bytes.append(header: Self.id, id.bytes[...])
        bytes.append(contentsOf: origin)
        if let time { bytes.append(header: "ce_time", time.rfc3339) }
        bytes.append(contentsOf: Self.subject)
        bytes.append(contentsOf: id.subject)
        bytes.append(header: Self.revision, id.revision)
        if hasValue { bytes.append(contentsOf: Self.contentType) }
        return 6 + (time == nil ? 0 : 1) + (hasValue ? 1 : 0)
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
        var bytes = value ?? []
        let count = TimelineHeaders(type: type, source: source).append(
            to: &bytes, EventID(id, revision), time: time, hasValue: value != nil)
        self.init(bytes: bytes, valueLength: value?.count, keyLength: TimelineID.textLength, headerCount: count)
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
        var encoded = EncodedEvent(key: subject ?? app ?? "", value: data(topics))
        encoded.appendHeaders(
            type: Self.type, id: id(topics), source: source, time: time, (name: "ce_subject", value: subject))
        return encoded
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
