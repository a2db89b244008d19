import PostgresClient
import WidgetModel

extension PostgresRow {
    func time(_ name: StaticString) throws(PostgresError) -> Timestamp {
        Timestamp(try value(name, as: PostgresTimestamp.self))
    }

    func optionalTime(_ name: StaticString) throws(PostgresError) -> Timestamp? {
        try optional(name, as: PostgresTimestamp.self).map { Timestamp($0) }
    }

    /// A position in Kafka, kept as three columns that are NULL together.
    func cause(
        _ topic: StaticString, _ partition: StaticString, _ offset: StaticString
    ) throws(PostgresError) -> EventPosition? {
        guard let topic = try optional(topic, as: Int16.self),
            let partition = try optional(partition, as: Int32.self),
            let offset = try optional(offset, as: Int64.self)
        else { return nil }
        return EventPosition(topic: topic, partition: partition, offset: offset)
    }

    func optionalFamily(_ name: StaticString) throws(PostgresError) -> WidgetFamily? {
        guard let raw = try optional(name, as: Int16.self) else { return nil }
        guard let family = WidgetFamily(rawValue: raw) else {
            throw PostgresError(.decoding, "column \"\(name)\" holds \(raw); expected a widget family")
        }
        return family
    }

    func family(_ name: StaticString) throws(PostgresError) -> WidgetFamily {
        guard let family = try optionalFamily(name) else {
            throw PostgresError(.decoding, "column \"\(name)\" is NULL; expected a widget family")
        }
        return family
    }

    func timelineID(_ name: StaticString) throws(PostgresError) -> TimelineID {
        TimelineID(try value(name, as: PostgresUUID.self))
    }

    func optionalTimelineID(_ name: StaticString) throws(PostgresError) -> TimelineID? {
        try optional(name, as: PostgresUUID.self).map { TimelineID($0) }
    }

    func optionalHash(_ name: StaticString) throws(PostgresError) -> ContentHash? {
        try optional(name, as: PostgresUUID.self).map { ContentHash($0) }
    }

    /// A 64-bit count.
    func count(_ name: StaticString) throws(PostgresError) -> Int {
        Int(try value(name, as: Int64.self))
    }

    /// A reason; nil when there is none, or one of a newer version.
    func reason(_ name: StaticString) throws(PostgresError) -> ReloadReason? {
        try optional(name, as: Int16.self).flatMap { ReloadReason(rawValue: $0) }
    }

    func lane(_ name: StaticString) throws(PostgresError) -> ReloadLane {
        let raw: Int16 = try value(name)
        guard let lane = ReloadLane(rawValue: raw) else {
            throw PostgresError(.decoding, "column \"\(name)\" holds \(raw); expected a lane")
        }
        return lane
    }

    /// The stored definition of a kind.
    func definition(_ name: StaticString, of app: String) throws(PostgresError) -> KindDefinition {
        let text: String = try value(name)
        do {
            return try KindDefinition(json: JSONValue.parse(Array(text.utf8)))
        } catch {
            throw PostgresError(.decoding, "stored definition of a kind of \(app): \(error)")
        }
    }
}

// By position, until every statement reads by name.
extension PostgresRow {
    func family(_ column: Int) throws(PostgresError) -> WidgetFamily {
        guard let family = try optionalFamily(column) else {
            throw PostgresError(.decoding, "column \(column) is NULL; expected a widget family")
        }
        return family
    }

    func optionalFamily(_ column: Int) throws(PostgresError) -> WidgetFamily? {
        try optional(column, as: Int16.self).flatMap { WidgetFamily(rawValue: $0) }
    }

    func lane(_ column: Int) throws(PostgresError) -> ReloadLane {
        ReloadLane(rawValue: try value(column)) ?? .bulk
    }
}
