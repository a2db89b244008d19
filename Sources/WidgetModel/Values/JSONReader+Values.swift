package import JSON

/// Values that are common in Freshet's documents, checked as they are read.
extension JSONReader {
    /// An id of an app, user, device, widget or kind.
    package mutating func identifier() throws(JSONError) -> String {
        try expect(.string)
        let offset = position
        let token = try scanString()
        let text = text(of: token)
        // Nearly every id is printable ASCII of a permitted length, which needs no further check.
        if !token.hasEscapes, (1...Text.maximumIdentifierBytes).contains(token.range.count), isPrintableASCII(token) {
            return text
        }
        if let problem = Text.identifierProblem(text) { throw failure(.invalidValue, problem, at: offset) }
        return text
    }

    /// Reason why a string cannot be an identifier or a text to be shown.
    func identifierProblem(_ token: JSONStringToken, maximumBytes: Int) -> String? {
        guard !token.hasEscapes, (1...maximumBytes).contains(token.range.count) else {
            return Text.identifierProblem(text(of: token), maximumBytes: maximumBytes)
        }
        // Only an escape can produce a C0 control character.
        for index in token.range where bytes[index] == 0x7F || bytes[index] == 0xC2 {
            return Text.identifierProblem(text(of: token), maximumBytes: maximumBytes)
        }
        return nil
    }

    private func isPrintableASCII(_ token: JSONStringToken) -> Bool {
        for index in token.range where bytes[index] >= 0x7F { return false }
        return true
    }

    /// An RFC 3339 date-time.
    package mutating func timestamp() throws(JSONError) -> Timestamp {
        try string("an RFC 3339 date-time") { Timestamp(rfc3339: $0) }
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
        var object = try beginObject()
        while let key = try nextKey(&object) {
            if matches(key, "locale") {
                locale = try string()
            } else if matches(key, "timeZone") {
                timeZone = try string()
            } else {
                try skip()
            }
        }
        let (language, zone) = (
            try require(locale, "locale", of: object), try require(timeZone, "timeZone", of: object)
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
