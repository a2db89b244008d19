package import PostgresClient
package import WidgetModel

// The model knows no database and the client knows no model: the store is where their 128-bit and time values meet.

extension PostgresUUID {
    package init(_ id: TimelineID) {
        self.init(high: id.high, low: id.low)
    }

    package init(_ hash: ContentHash) {
        self.init(high: hash.high, low: hash.low)
    }
}

extension TimelineID {
    package init(_ uuid: PostgresUUID) {
        self.init(high: uuid.high, low: uuid.low)
    }
}

extension ContentHash {
    package init(_ uuid: PostgresUUID) {
        self.init(high: uuid.high, low: uuid.low)
    }
}

extension PostgresTimestamp {
    package init(_ time: Timestamp) {
        self.init(microseconds: time.microseconds)
    }
}

extension Timestamp {
    package init(_ time: PostgresTimestamp) {
        self.init(microseconds: time.microseconds)
    }
}
