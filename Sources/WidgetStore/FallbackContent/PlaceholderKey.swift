import PostgresClient
package import WidgetModel

/// Which placeholder of which registered kind.
package struct PlaceholderKey: Hashable, Sendable {
    package let kindID: Int32
    package let family: WidgetFamily
    package let locale: String
    /// Nil when the kind does not vary by it.
    package let timeZone: String?

    package init(kindID: Int32, family: WidgetFamily, locale: String, timeZone: String?) {
        self.kindID = kindID
        self.family = family
        self.locale = locale
        self.timeZone = timeZone
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
    /// The columns `kind_id, family, locale, time_zone`.
    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        let timeZone: String = try row.value("time_zone")
        self.init(
            kindID: try row.value("kind_id"), family: try row.family("family"), locale: try row.value("locale"),
            timeZone: timeZone.isEmpty ? nil : timeZone)
    }
}

extension PostgresParameters {
    /// As `$1` to `$4`, for ``keyInput``.
    mutating func append(keys: [PlaceholderKey]) {
        append(array: keys.map(\.kindID))
        append(array: keys.map(\.family.rawValue))
        append(array: keys.map(\.locale))
        append(array: keys.map { $0.timeZone ?? "" })
    }
}
