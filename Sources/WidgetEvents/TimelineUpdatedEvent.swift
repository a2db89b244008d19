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

    /// Binary mode; the key is the timeline's id. The event's id is made of timeline and revision, so that repeated messages
    /// have the same id.
    package func encode(source: String) -> EncodedEvent {
        var headers = TimelineHeaders.make(
            type: Self.type, timeline: timeline, revision: revision, source: source, time: storedAt)
        headers.append(("content-type", TimelineHeaders.json))
        return EncodedEvent(key: headers[TimelineHeaders.subject].value, headers: headers, value: data)
    }

    /// The event's data: identity, revision, and the members of the content.
    package var data: [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(content.count + 320)
        var members = MemberWriter()
        members.append("timeline", timeline.description, to: &out)
        members.append("revision", raw: String(revision).utf8, to: &out)
        if let storedAt { members.append("storedAt", storedAt.rfc3339, to: &out) }
        members.append("app", identity.app, to: &out)
        members.append("kind", identity.kind, to: &out)
        if let family = identity.family { members.append("family", family.name, to: &out) }
        members.append("configuration", raw: identity.configuration.canonical.utf8, to: &out)
        if let locale = identity.locale { members.append("locale", locale, to: &out) }
        if let timeZone = identity.timeZone { members.append("timeZone", timeZone, to: &out) }
        if let user = identity.user { members.append("user", user, to: &out) }
        if content.count > 2 {
            // The members of the stored object are spliced in as they are.
            out.append(UInt8(ascii: ","))
            out.append(contentsOf: content[1..<(content.count - 1)])
        }
        members.end(&out)
        return out
    }
}

/// The event of a removed timeline (`freshet.timeline.removed.v1`), a tombstone.
package struct TimelineRemovedEvent: Hashable, Sendable {
    package static let type = "freshet.timeline.removed.v1"

    package var timeline: TimelineID
    package var revision: Int64
    package var time: Timestamp?

    package init(timeline: TimelineID, revision: Int64, time: Timestamp?) {
        self.timeline = timeline
        self.revision = revision
        self.time = time
    }

    /// A message without a value, so that compaction removes the timeline; the headers have the event's attributes.
    package func encode(source: String) -> EncodedEvent {
        EncodedEvent(
            key: Array(timeline.description.utf8),
            headers: TimelineHeaders.make(
                type: Self.type, timeline: timeline, revision: revision, source: source, time: time),
            value: nil)
    }
}

/// Headers of messages on the timelines topic.
package enum TimelineHeaders {
    /// The header with the revision in decimal digits.
    package static let revision = "freshet-revision"

    private static let version = Array("1.0".utf8)
    private static let updated = Array(TimelineUpdatedEvent.type.utf8)
    static let json = Array("application/json".utf8)

    /// Index of the header with the timeline's id, which is also the key.
    static let subject = 4

    static func make(
        type: String, timeline: TimelineID, revision: Int64, source: String, time: Timestamp?
    ) -> [(name: String, value: [UInt8])] {
        let id = Array(timeline.description.utf8)
        let number = Array(String(revision).utf8)
        var eventID: [UInt8] = []
        eventID.reserveCapacity(id.count + 1 + number.count)
        eventID += id
        eventID.append(UInt8(ascii: ":"))
        eventID += number
        var headers: [(name: String, value: [UInt8])] = []
        // Constant values are made once, since tens of thousands of messages are published per second.
        headers.reserveCapacity(8)
        headers.append(("ce_specversion", version))
        headers.append(("ce_id", eventID))
        headers.append(("ce_source", Array(source.utf8)))
        headers.append(("ce_type", Text.equal(type, TimelineUpdatedEvent.type) ? updated : Array(type.utf8)))
        headers.append(("ce_subject", id))
        headers.append((Self.revision, number))
        if let time { headers.append(("ce_time", Array(time.rfc3339.utf8))) }
        return headers
    }
}
