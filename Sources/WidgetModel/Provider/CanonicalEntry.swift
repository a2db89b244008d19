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
        var dateText: JSONStringToken?
        var relevance: Relevance?
        var url: JSONStringToken?
        var links: [UInt8] = []
        var linkCount = 0
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "date":
                let token = try reader.stringToken()
                date = try reader.timestamp(token)
                dateText = token
            case "content":
                try reader.canonicalize(into: &buffer)
                contentEnd = buffer.count
            case "relevance":
                guard try !reader.takeNull() else { continue }
                relevance = try Relevance(from: &reader)
            case "url":
                guard try !reader.takeNull() else { continue }
                url = try Self.readURL(from: &reader)
            case "links":
                links.removeAll()
                linkCount = try reader.takeNull() ? 0 : Self.readLinks(from: &reader, into: &links)
            default: try reader.skip()
            }
        }
        guard let date, let dateText else { throw reader.missing("date", inObjectAt: object) }
        guard let contentEnd else { throw reader.missing("content", inObjectAt: object) }
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
        date: Timestamp, dateText: JSONStringToken, links: [UInt8], relevance: Relevance?, url: JSONStringToken?,
        reader: inout JSONReader, to buffer: inout [UInt8]
    ) -> Int {
        buffer.append(contentsOf: ",\"date\":".utf8)
        if Self.isCanonicalDate(reader.utf8(of: dateText)) {
            reader.append(dateText, to: &buffer)
        } else {
            buffer.append(UInt8(ascii: "\""))
            date.appendRFC3339(to: &buffer)
            buffer.append(UInt8(ascii: "\""))
        }
        let dateEnd = buffer.count
        if !links.isEmpty {
            buffer.append(contentsOf: ",\"links\":".utf8)
            buffer.append(contentsOf: links)
        }
        if let relevance {
            buffer.append(contentsOf: ",\"relevance\":{".utf8)
            if let duration = relevance.duration {
                buffer.append(contentsOf: "\"duration\":".utf8)
                reader.append(number: duration, to: &buffer)
                buffer.append(UInt8(ascii: ","))
            }
            buffer.append(contentsOf: "\"score\":".utf8)
            reader.append(number: relevance.score, to: &buffer)
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
    private static func isCanonicalDate(_ text: ArraySlice<UInt8>) -> Bool {
        guard text.count == 20 else { return false }
        let start = text.startIndex
        return text[start + 10] == UInt8(ascii: "T") && text[start + 19] == UInt8(ascii: "Z")
            && text[start + 17] != UInt8(ascii: "6")
    }

    /// Number literals of a relevance. A duration of zero is left out.
    private struct Relevance {
        var score: Range<Int>
        var duration: Range<Int>?

        init(from reader: inout JSONReader) throws(JSONError) {
            var score: Range<Int>?
            let object = try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "score":
                    score = try reader.numberToken()
                case "duration":
                    guard try !reader.takeNull() else { continue }
                    let seconds = try reader.seconds()
                    duration = seconds.value > 0 ? seconds.literal : nil
                default: try reader.skip()
                }
            }
            self.score = try reader.require(score, "score", ofObjectAt: object)
        }
    }

    /// Reads links by name, appends them in canonical form, and returns their number.
    private static func readLinks(from reader: inout JSONReader, into buffer: inout [UInt8]) throws(JSONError) -> Int {
        try reader.canonicalize(into: &buffer) { (reader) throws(JSONError) in
            var count = 0
            let object = try reader.beginObject()
            while try reader.nextKey() != nil {
                _ = try readURL(from: &reader)
                count += 1
            }
            guard count <= maximumLinks else {
                throw reader.failure(.invalidValue, "more than \(maximumLinks) links", at: object)
            }
            return count
        }
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
