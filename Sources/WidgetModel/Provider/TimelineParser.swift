/// Reads elements of a provider's response, one after the other, reusing its buffers.
struct TimelineParser {
    let limits: ProviderLimits
    let volatileFields: VolatileFields

    /// Canonical entries of the current timeline, in the order in which they came.
    private var buffer: [UInt8] = []
    private var entries: [Entry] = []

    /// Where a canonical entry lies in the buffer.
    private struct Entry {
        let date: Timestamp
        let range: Range<Int>
        let contentEnd: Int
    }

    /// How much of a provider's error is kept, in Unicode scalars.
    private static let keptScalars = 256
    /// Longest url of an entry, in bytes.
    private static let maximumURLBytes = 2048
    private static let maximumRetryAfter = 86_400.0
    /// What every canonical entry begins with.
    private static let entryStart = Array("{\"content\":".utf8)

    init(limits: ProviderLimits, volatileFields: VolatileFields) {
        self.limits = limits
        self.volatileFields = volatileFields
    }

    /// Reads the next element: its id, if it has one, and what it says.
    mutating func read(from reader: inout JSONReader) throws(JSONError) -> (id: ElementID?, outcome: ProviderOutcome) {
        try reader.expect(.object)
        let offset = reader.position
        buffer.removeAll(keepingCapacity: true)
        entries.removeAll(keepingCapacity: true)
        var id: ElementID?
        var policy: ReloadPolicy?
        var hasEntries = false
        var failure: ProviderOutcome?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "id") {
                let token = try reader.stringToken()
                id = ElementID(reader.utf8(of: token))
            } else if reader.matches(key, "policy") {
                guard try !reader.takeNull() else { continue }
                policy = try reader.reloadPolicy()
            } else if reader.matches(key, "entries") {
                guard try !reader.takeNull() else { continue }
                try readEntries(from: &reader)
                hasEntries = true
            } else if reader.matches(key, "error") {
                guard try !reader.takeNull() else { continue }
                failure = try Self.readError(from: &reader)
            } else {
                try reader.skip()
            }
        }
        if let failure {
            guard !hasEntries else {
                throw reader.failure(.invalidValue, "has both entries and an error", at: offset)
            }
            return (id, failure)
        }
        guard hasEntries else { throw reader.missing("entries", inObjectAt: offset) }
        guard let policy else { throw reader.missing("policy", inObjectAt: offset) }
        return (id, .timeline(try timeline(policy: policy, reader: &reader, offset: offset)))
    }

    // MARK: Entries

    private mutating func readEntries(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.array)
        let offset = reader.position
        var array = try reader.beginArray()
        while try reader.nextElement(&array) {
            guard entries.count < limits.maximumEntries else {
                throw reader.failure(.invalidValue, "more than \(limits.maximumEntries) entries", at: offset)
            }
            try readEntry(from: &reader)
            guard buffer.count <= limits.maximumContentBytes else {
                throw reader.failure(.invalidValue, "more than \(limits.maximumContentBytes) bytes", at: offset)
            }
        }
        guard !entries.isEmpty else { throw reader.failure(.invalidValue, "expected at least one entry", at: offset) }
    }

    private mutating func readEntry(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.object)
        let offset = reader.position
        let start = buffer.count
        buffer.append(contentsOf: Self.entryStart)
        var contentEnd: Int?
        var date: Timestamp?
        var dateText: ArraySlice<UInt8>?
        var relevance: Relevance?
        var url: JSONStringToken?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "date") {
                _ = try reader.peek()
                let dateStart = reader.position + 1
                date = try reader.timestamp()
                dateText = reader.bytes[dateStart..<(reader.position - 1)]
            } else if reader.matches(key, "content") {
                try reader.canonicalize(into: &buffer)
                contentEnd = buffer.count
            } else if reader.matches(key, "relevance") {
                guard try !reader.takeNull() else { continue }
                relevance = try Relevance(from: &reader)
            } else if reader.matches(key, "url") {
                guard try !reader.takeNull() else { continue }
                url = try Self.readURL(from: &reader)
            } else {
                try reader.skip()
            }
        }
        guard let date, let dateText else { throw reader.missing("date", inObjectAt: offset) }
        guard let contentEnd else { throw reader.missing("content", inObjectAt: offset) }
        appendRest(date: date, dateText: dateText, relevance: relevance, url: url, reader: &reader)
        entries.append(Entry(date: date, range: start..<buffer.count, contentEnd: contentEnd))
    }

    /// Appends what follows the content in the canonical order of members.
    private mutating func appendRest(
        date: Timestamp, dateText: ArraySlice<UInt8>, relevance: Relevance?, url: JSONStringToken?,
        reader: inout JSONReader
    ) {
        buffer.append(contentsOf: ",\"date\":\"".utf8)
        if Self.isCanonicalDate(dateText) {
            buffer.append(contentsOf: dateText)
        } else {
            buffer.append(contentsOf: date.rfc3339.utf8)
        }
        buffer.append(UInt8(ascii: "\""))
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
    }

    /// Whether the text of a valid date is what `Timestamp.rfc3339` would write: UTC, whole seconds, no leap second.
    private static func isCanonicalDate(_ text: ArraySlice<UInt8>) -> Bool {
        guard text.count == 20 else { return false }
        let start = text.startIndex
        return text[start + 10] == UInt8(ascii: "T") && text[start + 19] == UInt8(ascii: "Z")
            && text[start + 17] != UInt8(ascii: "6")
    }

    /// Number literals of a relevance; a duration of zero is left out.
    private struct Relevance {
        var score: Range<Int>
        var duration: Range<Int>?

        init(from reader: inout JSONReader) throws(JSONError) {
            try reader.expect(.object)
            let offset = reader.position
            var score: Range<Int>?
            var object = try reader.beginObject()
            while let key = try reader.nextKey(&object) {
                if reader.matches(key, "score") {
                    try reader.expect(.number)
                    score = try reader.scanNumber().range
                } else if reader.matches(key, "duration") {
                    guard try !reader.takeNull() else { continue }
                    try reader.expect(.number)
                    let token = try reader.scanNumber()
                    let seconds = reader.value(of: token)
                    guard seconds >= 0 else {
                        throw reader.failure(
                            .invalidValue, "expected seconds from 0, found a negative number",
                            at: token.range.lowerBound)
                    }
                    duration = seconds > 0 ? token.range : nil
                } else {
                    try reader.skip()
                }
            }
            guard let score else { throw reader.missing("score", inObjectAt: offset) }
            self.score = score
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

    // MARK: Errors

    private static func readError(from reader: inout JSONReader) throws(JSONError) -> ProviderOutcome {
        try reader.expect(.object)
        let offset = reader.position
        var code: String?
        var message: String?
        var retryAfter: Duration?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "code") {
                code = Text.printable(try reader.string(), maximum: keptScalars)
            } else if reader.matches(key, "message") {
                message = Text.printable(try reader.string(), maximum: keptScalars)
            } else if reader.matches(key, "retryAfter") {
                guard try !reader.takeNull() else { continue }
                _ = try reader.peek()
                let valueOffset = reader.position
                let seconds = try reader.double()
                guard seconds >= 0 else {
                    throw reader.failure(
                        .invalidValue, "expected seconds from 0, found a negative number", at: valueOffset)
                }
                retryAfter = .milliseconds(Int64(min(seconds, maximumRetryAfter) * 1000))
            } else {
                try reader.skip()
            }
        }
        guard let code else { throw reader.missing("code", inObjectAt: offset) }
        guard let message else { throw reader.missing("message", inObjectAt: offset) }
        return .failed(code: code, message: message, retryAfter: retryAfter)
    }

    // MARK: Result

    private mutating func timeline(
        policy: ReloadPolicy, reader: inout JSONReader, offset: Int
    ) throws(JSONError) -> ParsedTimeline {
        if !zip(entries, entries.dropFirst()).allSatisfy({ $0.date <= $1.date }) {
            entries = StableOrder.indices(of: entries, by: \.date).map { [entries] in entries[$0] }
        }
        var policyText: [UInt8] = []
        policy.json.write(to: &policyText)
        var content = Self.opened(capacity: buffer.count + entries.count + policyText.count + 32)
        for index in entries.indices {
            if index > 0 { content.append(UInt8(ascii: ",")) }
            content.append(contentsOf: buffer[entries[index].range])
        }
        let entriesEnd = content.count
        Self.close(&content, policyText)
        guard content.count <= limits.maximumContentBytes else {
            throw reader.failure(.invalidValue, "more than \(limits.maximumContentBytes) bytes", at: offset)
        }
        return ParsedTimeline(
            policy: policy, firstEntryDate: entries[0].date, lastEntryDate: entries[entries.count - 1].date,
            entryCount: entries.count, lints: TimelineLints(policy: policy, dates: entries.lazy.map(\.date)),
            content: content,
            hash: try volatileFields.isEmpty
                ? ContentHash(of: content[..<entriesEnd]) : ContentHash(of: visibleForm()[...]))
    }

    /// The canonical form of the entries without the volatile fields of their contents.
    private func visibleForm() throws(JSONError) -> [UInt8] {
        var form = Self.opened(capacity: buffer.count)
        for index in entries.indices {
            if index > 0 { form.append(UInt8(ascii: ",")) }
            let entry = entries[index]
            form.append(contentsOf: Self.entryStart)
            let content = try JSONValue.parse(
                buffer, in: (entry.range.lowerBound + Self.entryStart.count)..<entry.contentEnd)
            volatileFields.removed(from: content).write(to: &form, canonical: true)
            form.append(contentsOf: buffer[entry.contentEnd..<entry.range.upperBound])
        }
        return form
    }

    private static func opened(capacity: Int) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(capacity)
        out.append(contentsOf: "{\"entries\":[".utf8)
        return out
    }

    private static func close(_ out: inout [UInt8], _ policyText: [UInt8]) {
        out.append(contentsOf: "],\"policy\":".utf8)
        out.append(contentsOf: policyText)
        out.append(UInt8(ascii: "}"))
    }
}
