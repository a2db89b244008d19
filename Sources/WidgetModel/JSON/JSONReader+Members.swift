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

    private func isPrintableASCII(_ token: JSONStringToken) -> Bool {
        for index in token.range where bytes[index] >= 0x7F { return false }
        return true
    }

    /// An RFC 3339 date-time.
    package mutating func timestamp() throws(JSONError) -> Timestamp {
        try string("an RFC 3339 date-time") { Timestamp(rfc3339: $0) }
    }

    /// Reads a string and converts its UTF-8; throws if `convert` returns nil.
    @inline(__always)
    package mutating func string<Value>(
        _ expected: @autoclosure () -> String, _ convert: (ArraySlice<UInt8>) -> Value?
    ) throws(JSONError) -> Value {
        try expect(.string)
        let offset = position
        let token = try scanString()
        guard let value = convert(utf8(of: token)) else {
            throw failure(
                .invalidValue, "expected \(expected()), found \(Text.quoted(text(of: token)))", at: offset)
        }
        return value
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
