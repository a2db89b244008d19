import JSON

/// Identity of a placeholder: all properties that it may depend on, without user data.
package struct PlaceholderIdentity: Hashable, Sendable {
    package let kind: String
    package let family: WidgetFamily
    package let locale: String
    /// Nil if the kind does not vary by time zone.
    package let timeZone: String?

    package init(kind: String, family: WidgetFamily, locale: String, timeZone: String?) {
        self.kind = kind
        self.family = family
        self.locale = locale
        self.timeZone = timeZone
    }

    /// Id of the placeholder in requests and answers, in the form of a timeline's id. Always the same for the same
    /// identity.
    package var id: TimelineID {
        let form: JSONValue = [
            "freshet.placeholder.v1", .string(kind), .string(family.name), .string(locale),
            timeZone.map { .string($0) } ?? .null,
        ]
        return TimelineID(hashOf: form.canonicalBytes)
    }
}

/// Body of a request for placeholders: `{"kind", "requests": [{"id", "family", "environment"}]}`.
package enum PlaceholderRequest {
    /// - Parameter items: placeholders of the kind.
    package static func encode(_ items: [PlaceholderIdentity], kind: String) -> [UInt8] {
        let requests = items.map { item -> JSONValue in
            var environment: JSONObject = ["locale": .string(item.locale)]
            environment["timeZone"] = item.timeZone.map { .string($0) }
            return [
                "id": .string(item.id.description), "family": .string(item.family.name),
                "environment": .object(environment),
            ]
        }
        return JSONValue.object(["kind": .string(kind), "requests": .array(requests)]).encoded
    }
}
