package import WidgetModel

/// The event of a stack's new schedule (`freshet.stack.scheduled.v1`), or of its end: a tombstone.
package struct StackScheduledEvent: Sendable {
    package static let type = "freshet.stack.scheduled.v1"

    package var id: TimelineID
    /// Rises with each schedule of the stack.
    package var revision: Int64
    /// ``StackPlan/json``; nil: the stack has no schedule any more.
    package var schedule: JSONValue?

    package init(id: TimelineID, revision: Int64, schedule: JSONValue?) {
        self.id = id
        self.revision = revision
        self.schedule = schedule
    }

    package func encode(source: String) -> EncodedEvent {
        var value: [UInt8]?
        if let schedule {
            var members = JSONObjectWriter(capacity: 1_024)
            members.appendMembers(of: schedule.encoded)
            members.append("revision", revision)
            value = members.finish()
        }
        return EncodedEvent(
            key: Array(id.description.utf8),
            headers: TimelineHeaders.make(
                type: Self.type, timeline: id, revision: revision, source: source, time: nil, hasData: value != nil),
            value: value)
    }
}
