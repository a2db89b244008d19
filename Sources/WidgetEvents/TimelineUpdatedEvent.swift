package import JSON
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

    /// Binary mode; the key is the timeline's id.
    package func encode(source: String) -> EncodedEvent {
        EncodedEvent(Self.type, of: timeline, revision: revision, source: source, time: storedAt, value: data)
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

/// The event of a removed timeline (`freshet.timeline.removed.v1`): a tombstone, so that compaction removes the
/// timeline. The headers have the event's attributes.
package enum TimelineRemovedEvent {
    package static let type = "freshet.timeline.removed.v1"

    package static func encode(_ timeline: TimelineID, revision: Int64, source: String) -> EncodedEvent {
        EncodedEvent(type, of: timeline, revision: revision, source: source, value: nil)
    }
}

/// The event of a stack's new schedule (`freshet.stack.scheduled.v1`), or of its end: a tombstone.
package enum StackScheduledEvent {
    package static let type = "freshet.stack.scheduled.v1"

    /// - Parameters:
    ///   - revision: rises with each schedule of the stack.
    ///   - schedule: ``StackPlan/json``; nil if the stack has no schedule any more.
    package static func encode(
        _ id: TimelineID, revision: Int64, schedule: JSONValue?, source: String
    ) -> EncodedEvent {
        let value = schedule.map { schedule in
            JSONWriter.object(capacity: 1_024) { members in
                members.appendMembers(of: schedule.encoded)
                members.append("revision", revision)
            }
        }
        return EncodedEvent(type, of: id, revision: revision, source: source, value: value)
    }
}

/// Headers of messages on the topics of timelines and schedules.
package enum TimelineHeaders {
    /// The header with the revision in decimal digits.
    package static let revision = "freshet-revision"
}

extension EncodedEvent {
    /// A message of a timeline's or a stack's id. The event's id is made of that id and the revision, so that repeated
    /// messages have the same id.
    fileprivate init(
        _ type: String, of id: TimelineID, revision: Int64, source: String, time: Timestamp? = nil, value: [UInt8]?
    ) {
        let headers = EventEncoder.headers(
            type: type, id: "\(id):\(revision)", source: source, time: time,
            [("ce_subject", id.description), (TimelineHeaders.revision, "\(revision)")], hasData: value != nil)
        self.init(key: Array(id.description.utf8), headers: headers, value: value)
    }
}
