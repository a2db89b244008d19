import JSON

/// A provider's entry in canonical form (RFC 8785), at the end of a buffer. Its date is in UTC, and a relevance
/// duration of zero is left out.
struct CanonicalEntry {
    let date: Timestamp
    /// Place of the entry in the buffer.
    let range: Range<Int>
    /// End of the entry's content, which begins after ``start``.
    let contentEnd: Int
    /// End of the date, which follows the content.
    let dateEnd: Int
    let hasRelevance: Bool

    /// Number of links: that of the whole widget and those of its parts.
    let linkCount: Int

    /// Bytes at the beginning of every canonical entry.
    static let start = Array("{\"content\":".utf8)
    /// Longest URL of an entry, in bytes.
    private static let maximumURLBytes = 2048
    /// Largest number of links in an entry.
    private static let maximumLinks = 50
}

extension CanonicalEntry {
    /// Reads the next value as an entry and appends its canonical form.
    init(from reader: inout JSONReader, into buffer: inout [UInt8]) throws(JSONError) {
        let start = buffer.count
        buffer.append(contentsOf: Self.start)
        var contentEnd: Int?
        var date: Timestamp?
        var dateText: Range<Int>?
        var relevance: Relevance?
        var url: JSONStringToken?
        var links: [UInt8] = []
        var linkCount = 0
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "date") {
                _ = try reader.peek()
                let dateStart = reader.position + 1
                date = try reader.timestamp()
                dateText = dateStart..<(reader.position - 1)
            } else if reader.matches(key, "content") {
                try reader.canonicalize(into: &buffer)
                contentEnd = buffer.count
            } else if reader.matches(key, "relevance") {
                guard try !reader.takeNull() else { continue }
                relevance = try Relevance(from: &reader)
            } else if reader.matches(key, "url") {
                guard try !reader.takeNull() else { continue }
                url = try Self.readURL(from: &reader)
            } else if reader.matches(key, "links") {
                links.removeAll()
                linkCount = try reader.takeNull() ? 0 : Self.readLinks(from: &reader, into: &links)
            } else {
                try reader.skip()
            }
        }
        guard let date, let dateText else { throw reader.missing("date", inObjectAt: object.start) }
        guard let contentEnd else { throw reader.missing("content", inObjectAt: object.start) }
        let dateEnd = Self.appendRest(
            date: date, dateText: dateText, links: linkCount > 0 ? links : [], relevance: relevance, url: url,
            reader: &reader, to: &buffer)
        self.init(
            date: date, range: start..<buffer.count, contentEnd: contentEnd, dateEnd: dateEnd,
            hasRelevance: relevance != nil, linkCount: linkCount + (url == nil ? 0 : 1))
    }

    /// Returns the entry for a copy of its bytes at another place of a buffer.
    func moved(to start: Int) -> CanonicalEntry {
        CanonicalEntry(
            date: date, range: start..<(start + range.count), contentEnd: contentEnd - range.lowerBound + start,
            dateEnd: dateEnd - range.lowerBound + start, hasRelevance: hasRelevance, linkCount: linkCount)
    }

    /// Appends the members that follow the content in canonical order, and returns the end of the first, the date.
    private static func appendRest(
        date: Timestamp, dateText: Range<Int>, links: [UInt8], relevance: Relevance?, url: JSONStringToken?,
        reader: inout JSONReader, to buffer: inout [UInt8]
    ) -> Int {
        buffer.append(contentsOf: ",\"date\":\"".utf8)
        if Self.isCanonicalDate(reader.bytes, dateText) {
            reader.copy(dateText, to: &buffer)
        } else {
            date.appendRFC3339(to: &buffer)
        }
        buffer.append(UInt8(ascii: "\""))
        let dateEnd = buffer.count
        if !links.isEmpty {
            buffer.append(contentsOf: ",\"links\":".utf8)
            buffer.append(contentsOf: links)
        }
        if let relevance {
            buffer.append(contentsOf: ",\"relevance\":{".utf8)
            if let duration = relevance.duration {
                buffer.append(contentsOf: "\"duration\":".utf8)
                ES6Number.appendCanonical(literal: reader.bytes[duration], to: &buffer)
                buffer.append(UInt8(ascii: ","))
            }
            buffer.append(contentsOf: "\"score\":".utf8)
            ES6Number.appendCanonical(literal: reader.bytes[relevance.score], to: &buffer)
            buffer.append(UInt8(ascii: "}"))
        }
        if let url {
            buffer.append(contentsOf: ",\"url\":".utf8)
            reader.append(url, to: &buffer)
        }
        buffer.append(UInt8(ascii: "}"))
        return dateEnd
    }

    /// Whether the text of a valid date equals the output of `Timestamp.rfc3339`: UTC, whole seconds, no leap second.
    private static func isCanonicalDate(_ bytes: [UInt8], _ text: Range<Int>) -> Bool {
        guard text.count == 20 else { return false }
        let start = text.lowerBound
        return bytes[start + 10] == UInt8(ascii: "T") && bytes[start + 19] == UInt8(ascii: "Z")
            && bytes[start + 17] != UInt8(ascii: "6")
    }

    /// Number literals of a relevance. A duration of zero is left out.
    private struct Relevance {
        var score: Range<Int>
        var duration: Range<Int>?

        init(from reader: inout JSONReader) throws(JSONError) {
            var score: Range<Int>?
            var object = try reader.beginObject()
            while let key = try reader.nextKey(&object) {
                if reader.matches(key, "score") {
                    try reader.expect(.number)
                    score = try reader.scanNumber()
                } else if reader.matches(key, "duration") {
                    guard try !reader.takeNull() else { continue }
                    let seconds = try reader.seconds()
                    duration = seconds.value > 0 ? seconds.literal : nil
                } else {
                    try reader.skip()
                }
            }
            self.score = try reader.require(score, "score", of: object)
        }
    }

    /// Reads links by name, appends them in canonical form, and returns their number.
    private static func readLinks(from reader: inout JSONReader, into buffer: inout [UInt8]) throws(JSONError) -> Int {
        try reader.expect(.object)
        let start = reader.checkpoint
        let offset = reader.position
        var count = 0
        var object = try reader.beginObject()
        while try reader.nextKey(&object) != nil {
            _ = try readURL(from: &reader)
            count += 1
        }
        guard count <= maximumLinks else {
            throw reader.failure(.invalidValue, "more than \(maximumLinks) links", at: offset)
        }
        reader.rewind(to: start)
        try reader.canonicalize(into: &buffer)
        return count
    }

    private static func readURL(from reader: inout JSONReader) throws(JSONError) -> JSONStringToken {
        let token = try reader.stringToken()
        let text = reader.text(of: token)
        let offset = token.range.lowerBound - 1
        guard !text.isEmpty, text.utf8.count <= maximumURLBytes else {
            throw reader.failure(.invalidValue, "expected 1 to \(maximumURLBytes) bytes", at: offset)
        }
        guard !Text.containsControlCharacter(text) else {
            throw reader.failure(.invalidValue, "must not contain control characters", at: offset)
        }
        return token
    }
}
