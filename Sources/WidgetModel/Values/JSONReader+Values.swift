package import JSON

/// Values that are common in Freshet's documents, checked as they are read.
extension JSONReader {
    /// An id of an app, user, device, widget or kind.
    package mutating func identifier() throws(JSONError) -> String {
        let token = try stringToken()
        if let problem = identifierProblem(token) {
            throw failure(.invalidValue, problem, at: token.range.lowerBound - 1)
        }
        return text(of: token)
    }

    /// Reason why a string cannot be an identifier or a text to be shown.
    mutating func identifierProblem(
        _ token: JSONStringToken, maximumBytes: Int = Text.maximumIdentifierBytes
    ) -> String? {
        // Nearly every id is printable ASCII of a permitted length, which needs no further check.
        if token.isPlain, (1...maximumBytes).contains(token.range.count) { return nil }
        return Text.identifierProblem(text(of: token), maximumBytes: maximumBytes)
    }

    /// An RFC 3339 date-time.
    package mutating func timestamp() throws(JSONError) -> Timestamp {
        try timestamp(stringToken())
    }

    /// An RFC 3339 date-time in a string that was read.
    mutating func timestamp(_ token: JSONStringToken) throws(JSONError) -> Timestamp {
        try convert(token, "an RFC 3339 date-time") { Timestamp(rfc3339: $0) }
    }

    /// The name of a widget family.
    package mutating func family() throws(JSONError) -> WidgetFamily {
        try string("one of \(WidgetFamily.allCases.map(\.name).joined(separator: ", "))") {
            WidgetFamily(name: String(decoding: $0, as: UTF8.self))
        }
    }

    /// An environment: `{"locale", "timeZone"}`.
    package mutating func environment() throws(JSONError) -> WidgetEnvironment {
        var locale: String?
        var timeZone: String?
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "locale": locale = try string()
            case "timeZone": timeZone = try string()
            default: try skip()
            }
        }
        let (language, zone) = (
            try require(locale, "locale", ofObjectAt: object), try require(timeZone, "timeZone", ofObjectAt: object)
        )
        return WidgetEnvironment(reportedLocale: language, timeZone: zone)
    }
}

extension JSONValue {
    /// RFC 3339 form of a time; null for nil and for times at the end of the range.
    package static func time(_ time: Timestamp?) -> JSONValue {
        guard let time, time != .distantFuture, time != .distantPast else { return .null }
        return .string(time.rfc3339)
    }

    /// Duration in whole seconds.
    package static func seconds(_ duration: Duration?) -> JSONValue {
        .count(duration.map { $0.wholeMicroseconds / 1_000_000 })
    }
}
