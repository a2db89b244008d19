// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel

// Stored forms of the model's values.

extension TimelineID: PostgresConvertible {
    package var storedValue: UInt128 { UInt128(high) << 64 | UInt128(low) }

    package init(storedValue uuid: UInt128) {
        self.init(high: UInt64(truncatingIfNeeded: uuid >> 64), low: UInt64(truncatingIfNeeded: uuid))
    }
}

extension ContentHash: PostgresConvertible {
    package var storedValue: UInt128 { UInt128(high) << 64 | UInt128(low) }

    package init(storedValue uuid: UInt128) {
        self.init(high: UInt64(truncatingIfNeeded: uuid >> 64), low: UInt64(truncatingIfNeeded: uuid))
    }
}

extension Timestamp: PostgresConvertible {
    package var storedValue: PostgresTimestamp { PostgresTimestamp(microseconds: microseconds) }

    package init(storedValue time: PostgresTimestamp) { self.init(microseconds: time.microseconds) }
}

extension WidgetFamily: PostgresConvertible {}
extension ReloadLane: PostgresConvertible {}
extension ReloadReason: PostgresConvertible {}
extension RequestUrgency: PostgresConvertible {}
extension Decision: PostgresConvertible {}
extension ReloadRule: PostgresConvertible {}

/// Condition that a column has a family that this version knows.
func isKnownFamily(_ column: String) -> String {
    "\(column) IN (\(WidgetFamily.allCases.map { "\($0.rawValue)" }.joined(separator: ", ")))"
}

extension PostgresRow {
    /// A position in Kafka, stored as three columns that are NULL together.
    func cause(
        topic: StaticString, partition: StaticString, offset: StaticString
    ) throws(PostgresError) -> EventPosition? {
        guard let topic = try optional(topic, as: Int16.self),
            let partition = try optional(partition, as: Int32.self),
            let offset = try optional(offset, as: Int64.self)
        else { return nil }
        return EventPosition(topic: topic, partition: partition, offset: offset)
    }

    /// A reason; nil without one, or for one of a newer version.
    func reason(_ name: StaticString) throws(PostgresError) -> ReloadReason? {
        try optional(name, as: Int16.self).flatMap { ReloadReason(rawValue: $0) }
    }

    /// The spent part of a daily budget. One that cannot be read was written by a newer version: a full bucket is the
    /// mild error.
    func ledger(_ name: StaticString) throws(PostgresError) -> BudgetLedger {
        try optional(name) { BudgetLedger(stored: $0) ?? BudgetLedger() } ?? BudgetLedger()
    }

    /// Time of an appointment; nil without one.
    func nextLook(_ name: StaticString) throws(PostgresError) -> Timestamp? {
        let listedAt: Timestamp = try value(name)
        return listedAt == .distantFuture ? nil : listedAt
    }

    /// A widget's family; nil for one of a newer version.
    func family(_ name: StaticString) throws(PostgresError) -> WidgetFamily? {
        try WidgetFamily(rawValue: value(name))
    }

    /// The lane of an appointment; the bulk lane for one of a newer version.
    func lane(_ name: StaticString) throws(PostgresError) -> ReloadLane {
        try ReloadLane(rawValue: value(name)) ?? .bulk
    }

    /// The stored definition of a kind, or the reason why this version cannot read it.
    func definition(_ name: StaticString) throws(PostgresError) -> Result<KindDefinition, ModelError> {
        let text: String = try value(name)
        return Result { () throws(ModelError) in
            guard let json = try? JSONValue.parse(Array(text.utf8)) else {
                throw ModelError(message: "no JSON within the limits of this version")
            }
            return try KindDefinition(json: json)
        }
    }
}

extension Duration {
    /// Whole milliseconds for intervals in SQL, clamped to the largest value.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return overflow ? .max : product + attoseconds / 1_000_000_000_000_000
    }
}

/// An id as a dictionary key, compared bytewise as in PostgreSQL and Kafka. `String` equality would fold the events of
/// users with canonically equivalent ids into one.
package struct Identifier: Hashable, Sendable {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package static func == (left: Identifier, right: Identifier) -> Bool {
        Text.equal(left.text, right.text)
    }

    package func hash(into hasher: inout Hasher) {
        Text.hash(text, into: &hasher)
    }
}

/// A widget, a user or a device of an app.
package struct ScopedIdentifier: Hashable, Sendable {
    package let appID: Int32
    package let id: Identifier

    package init(_ appID: Int32, _ id: String) {
        self.appID = appID
        self.id = Identifier(id)
    }
}
