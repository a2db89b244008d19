import PostgresClient
import WidgetModel

extension PostgresRow {
    /// A family, kept as its number.
    func family(_ column: Int) throws(PostgresError) -> WidgetFamily {
        guard let family = try optionalFamily(column) else {
            throw PostgresError.unexpectedValue(column: column, "NULL", expected: "a widget family")
        }
        return family
    }

    func optionalFamily(_ column: Int) throws(PostgresError) -> WidgetFamily? {
        guard let raw = try optional(column, as: Int16.self) else { return nil }
        guard let family = WidgetFamily(rawValue: raw) else {
            throw PostgresError.unexpectedValue(column: column, "\(raw)", expected: "a widget family")
        }
        return family
    }
}

extension PostgresError {
    static func unexpectedValue(column: Int, _ value: String, expected: String) -> PostgresError {
        PostgresError(.decoding, "column \(column) holds \(value); expected \(expected)")
    }
}

extension PostgresRow {
    func lane(_ column: Int) throws(PostgresError) -> ReloadLane {
        let raw: Int16 = try value(column)
        guard let lane = ReloadLane(rawValue: raw) else {
            throw PostgresError.unexpectedValue(column: column, "\(raw)", expected: "a lane")
        }
        return lane
    }
}
