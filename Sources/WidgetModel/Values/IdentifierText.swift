// SPDX-License-Identifier: Apache-2.0

package import JSON

extension Text {
    /// Longest id of an app, user, device, widget or kind, in UTF-8 bytes.
    package static let maximumIdentifierBytes = 256

    /// Reason why `text` is not a valid id, or nil: 1 to 256 bytes, no control characters (C0, DEL, C1).
    package static func identifierProblem(
        _ text: String, maximumBytes: Int = maximumIdentifierBytes
    ) -> String? {
        let count = text.utf8.count
        if count == 0 { return "must not be empty" }
        if count > maximumBytes {
            return "must be at most \(maximumBytes) bytes, is \(count)"
        }
        return containsControlCharacter(text) ? "must not contain control characters" : nil
    }

    /// The text percent-encoded except for the unreserved characters of RFC 3986.
    package static func percentEncoded(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(UnicodeScalar(byte))
            default: (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
    }
}

extension String {
    /// The first of the candidates closest to a misspelt name, if it is close enough.
    package func closest(among candidates: some Sequence<String>) -> String? {
        let wanted = Array(lowercased().unicodeScalars.prefix(64))
        let limit = max(1, wanted.count / 3)
        var best: (name: String, distance: Int)?
        for candidate in candidates {
            let distance = edits(from: wanted, to: Array(candidate.lowercased().unicodeScalars))
            if distance <= limit, distance < best?.distance ?? Int.max { best = (candidate, distance) }
        }
        return best?.name
    }

    /// `; did you mean "name"?` for a message about a misspelt name, or nothing.
    package func hint(among candidates: some Sequence<String>) -> String {
        closest(among: candidates).map { "; did you mean \(Text.quoted($0))?" } ?? ""
    }
}

/// Edits between two names: insertions, deletions, replacements and swaps of neighbours.
private func edits(from left: [Unicode.Scalar], to right: [Unicode.Scalar]) -> Int {
    guard !left.isEmpty else { return right.count }
    guard !right.isEmpty else { return left.count }
    var beforePrevious: [Int] = []
    var previous = Array(0...right.count)
    for row in 1...left.count {
        var current = [row]
        for column in 1...right.count {
            let replaced = previous[column - 1] + (left[row - 1] == right[column - 1] ? 0 : 1)
            var edits = min(replaced, previous[column] + 1, current[column - 1] + 1)
            if row > 1, column > 1, left[row - 1] == right[column - 2], left[row - 2] == right[column - 1] {
                edits = min(edits, beforePrevious[column - 2] + 1)
            }
            current.append(edits)
        }
        (beforePrevious, previous) = (previous, current)
    }
    return previous[right.count]
}

/// Values that are common in Freshet's documents, checked as they are read.
extension JSONReader {
    /// An id of an app, user, device, widget or kind.
    package mutating func identifier() throws(JSONError) -> String { try identifier(stringToken()) }

    /// An id in a string that was read.
    package mutating func identifier(_ token: JSONStringToken) throws(JSONError) -> String {
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
        let time =
            token.hasEscapes
            ? Timestamp(rfc3339: utf8(of: token)) : Timestamp(rfc3339: bytes.span.extracting(token.range))
        guard let time else { throw unexpected(token, "an RFC 3339 date-time") }
        return time
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
