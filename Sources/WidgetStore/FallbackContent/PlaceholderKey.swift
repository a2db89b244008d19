import PostgresClient
package import WidgetModel

/// Key of a placeholder.
package struct PlaceholderKey: Hashable, Sendable {
    /// Most placeholders of a kind, approximately.
    package static let limit = 2_000

    package let kindID: Int32
    package let family: WidgetFamily
    package let locale: String
    /// Nil if the kind does not vary by time zone.
    package let timeZone: String?

    package init(kindID: Int32, family: WidgetFamily, locale: String, timeZone: String?) {
        (self.kindID, self.family, self.locale, self.timeZone) = (kindID, family, locale, timeZone)
    }

    /// The placeholder of a kind's widget in an environment.
    package init(kind: RegisteredKind, family: WidgetFamily, environment: WidgetEnvironment) {
        self.init(
            kindID: kind.id, family: family, locale: environment.locale,
            timeZone: kind.definition.variesBy.contains(.timeZone) ? environment.timeZone : nil)
    }

    package static func == (left: PlaceholderKey, right: PlaceholderKey) -> Bool {
        left.kindID == right.kindID && left.family == right.family && Text.equal(left.locale, right.locale)
            && Text.equal(left.timeZone, right.timeZone)
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(kindID)
        hasher.combine(family)
        Text.hash(locale, into: &hasher)
    }
}

extension PlaceholderKey {
    /// The columns that ``init(_:)`` reads, in the order of the primary key.
    static func columns(of alias: String) -> String {
        ["kind_id", "family", "locale", "time_zone"].map { "\(alias).\($0)" }.joined(separator: ", ")
    }

    /// Condition that rows of two tables have the same key.
    static func matches(_ left: String, _ right: String) -> String {
        "(\(columns(of: left))) = (\(columns(of: right)))"
    }

    /// Input columns of a key.
    static func input<Element: Sendable>(
        _ key: @escaping @Sendable (Element) -> PlaceholderKey
    ) -> [InputColumns<Element>.Column] {
        [
            .init("kind_id") { key($0).kindID }, .init("family") { key($0).family },
            .init("locale") { key($0).locale }, .init("time_zone") { key($0).timeZone ?? "" },
        ]
    }

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        let timeZone: String = try row.value("time_zone")
        try self.init(
            kindID: row.value("kind_id"), family: row.value("family"), locale: row.value("locale"),
            timeZone: timeZone.isEmpty ? nil : timeZone)
    }
}
