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
        EncodedEvent(
            key: Array(timeline.description.utf8),
            headers: TimelineHeaders.make(
                type: Self.type, timeline: timeline, revision: revision, source: source, time: storedAt),
            value: data)
    }

    /// The event's data: identity, revision, and the members of the content.
    package var data: [UInt8] {
        var members = JSONObjectWriter(capacity: content.count + 320)
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
        return members.finish()
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
                type: Self.type, timeline: timeline, revision: revision, source: source, time: time, hasData: false),
            value: nil)
    }
}

/// Headers of messages on the timelines topic.
package enum TimelineHeaders {
    /// The header with the revision in decimal digits.
    package static let revision = "freshet-revision"

    static func make(
        type: String, timeline: TimelineID, revision: Int64, source: String, time: Timestamp?, hasData: Bool = true
    ) -> [(name: String, value: [UInt8])] {
        EventEncoder.headers(
            type: type, id: "\(timeline):\(revision)", source: source, time: time,
            [("ce_subject", timeline.description), (Self.revision, "\(revision)")], hasData: hasData)
    }
}
