// SPDX-License-Identifier: Apache-2.0

package import JSON

/// A timeline requested from a provider.
package struct RequestedTimeline: Sendable {
    package let id: TimelineID
    /// Fields of an entry's content that do not count as a change. The token `*` names every element of a list.
    package let volatileFields: [JSONPointer]
    /// Family of the widgets; nil if it is unknown or widgets of several families show the timeline.
    package let family: WidgetFamily?

    package init(_ id: TimelineID, volatileFields: [JSONPointer] = [], family: WidgetFamily? = nil) {
        self.id = id
        self.volatileFields = volatileFields
        self.family = family
    }
}

/// A provider's timeline, ready to be stored.
package struct ParsedTimeline: Hashable, Sendable {
    /// Most entries of an answer.
    package static let maximumEntries = 1000
    /// Longest canonical form that is stored, in bytes.
    package static let maximumContentBytes = 262_144

    package let policy: ReloadPolicy
    package let firstEntryDate: Timestamp
    package let lastEntryDate: Timestamp
    package let entryCount: Int
    package let lints: TimelineLints
    /// Canonical JSON (RFC 8785) `{"entries": […], "policy": …}`. Entries are sorted by date, those with equal dates in
    /// the provider's order. Dates are in UTC.
    package let content: [UInt8]
    /// Hash of the entries without the kind's volatile fields: equal hashes mean that nothing visible has changed. The
    /// policy is left out, since it is not visible. Otherwise a provider that answers `after` an hour from now would
    /// change its timeline each time. An entry without relevance that shows the same as the one before it is left out.
    package let hash: ContentHash
    /// The same without the date of the first entry, which nobody sees once its time has come. Nil if the first entry
    /// has relevance, which begins at the date.
    var undatedHash: ContentHash?
}

extension ParsedTimeline {
    /// Time by which the clocks of providers may be ahead.
    private static let clockTolerance = Duration.seconds(10)

    /// The hash of the timeline while its first entry is shown, nil before its date.
    private func shownHash(at time: Timestamp) -> ContentHash? {
        firstEntryDate <= time + Self.clockTolerance ? undatedHash : nil
    }

    /// The hash to store for an answer of this time.
    package func hash(at time: Timestamp) -> ContentHash { shownHash(at: time) ?? hash }

    /// Whether devices show the same from a time on as by the timeline with a stored hash.
    ///
    /// The first entries of both are shown by then, if their dates are left out. So a provider that dates the first
    /// entry by the request changes nothing.
    package func showsTheSame(as stored: ContentHash?, at time: Timestamp) -> Bool {
        guard let stored else { return false }
        return stored == hash || stored == shownHash(at: time)
    }
}

// MARK: - Stored timelines

/// Access to the entries of a stored timeline in place, so that they are sent as they are stored.
extension ParsedTimeline {
    /// The bytes of the entry that is shown at a time, the last one with an earlier or equal date; nil before the
    /// first.
    ///
    /// - Parameter json: a stored timeline: an object with `entries` in the order of their dates.
    package static func currentEntry(in json: [UInt8], at time: Timestamp) -> ArraySlice<UInt8>? {
        (try? place(in: json, at: time)).map { json[$0] }
    }

    /// Link of an entry; nil when it has none.
    package static func url(of entry: ArraySlice<UInt8>) -> String? {
        func read() throws(JSONError) -> String? {
            var reader = JSONReader(Array(entry))
            var url: String?
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "url": url = try reader.string()
                default: try reader.skip()
                }
            }
            return url
        }
        return (try? read()) ?? nil
    }

    /// Passes a reader at the beginning of each entry, in order, to a closure that reads the entry.
    ///
    /// - Parameter json: a stored timeline.
    static func forEachEntry(
        in json: [UInt8], _ read: (inout JSONReader) throws(JSONError) -> Void
    ) throws(JSONError) {
        var reader = JSONReader(json)
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "entries":
                try reader.beginArray()
                while try reader.nextElement() { try read(&reader) }
            default: try reader.skip()
            }
        }
    }

    private static func place(in json: [UInt8], at time: Timestamp) throws(JSONError) -> Range<Int>? {
        var place: Range<Int>?
        try forEachEntry(in: json) { (reader: inout JSONReader) throws(JSONError) in
            try reader.expect(.object)
            let start = reader.position
            if let date = try date(of: &reader), date <= time { place = start..<reader.position }
        }
        return place
    }

    /// Reads an entry and returns its date.
    private static func date(of reader: inout JSONReader) throws(JSONError) -> Timestamp? {
        var date: Timestamp?
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "date": date = try reader.timestamp()
            default: try reader.skip()
            }
        }
        return date
    }
}

// MARK: - Answers

/// Answer to a request for timelines: `{"timelines": [{"id", "policy", "entries"} | {"id", "error"}]}`.
package typealias ProviderResponse = ProviderAnswer<ParsedTimeline>

extension ProviderAnswer<ParsedTimeline> {
    /// Reads a response body.
    ///
    /// - Parameter requested: the requested timelines, of any kinds.
    package static func parse(
        _ bytes: [UInt8], requested: [RequestedTimeline], maximumEntries: Int = ParsedTimeline.maximumEntries,
        maximumContentBytes: Int = ParsedTimeline.maximumContentBytes
    ) throws(JSONError) -> ProviderResponse {
        try ProviderResponse(
            bytes, list: "timelines", requested: requested.map(\.id),
            parser: TimelineParser(
                requested: requested, maximumEntries: maximumEntries, maximumContentBytes: maximumContentBytes))
    }
}

/// Reads elements of a provider's response, one after another.
///
/// The canonical form of a timeline is written once, into the array that is hashed, stored and published.
struct TimelineParser: ElementParser {
    let requested: [RequestedTimeline]
    let maximumEntries: Int
    let maximumContentBytes: Int

    /// Canonical form of the current timeline's entries, in the order in which they were read.
    private var content: [UInt8] = []
    private var entries: [CanonicalEntry] = []
    private var policy: ReloadPolicy?
    /// Capacity for the next timeline's content, a little more than the last one used.
    private var capacity = 1024

    private static let start = Array("{\"entries\":[".utf8)

    let valueMember: ShortText = "entries"

    init(requested: [RequestedTimeline], maximumEntries: Int, maximumContentBytes: Int) {
        self.requested = requested
        self.maximumEntries = maximumEntries
        self.maximumContentBytes = maximumContentBytes
    }

    mutating func begin() { policy = nil }

    mutating func read(_ key: JSONKey, from reader: inout JSONReader) throws(JSONError) -> Bool {
        switch key {
        case "policy": policy = try reader.takeNull() ? nil : try reader.reloadPolicy()
        case "entries": return try readEntries(from: &reader)
        default: try reader.skip()
        }
        return false
    }

    /// Returns the timeline and gives up its content.
    mutating func finish(
        place: Int?, _ reader: inout JSONReader, at offset: Int
    ) throws(JSONError) -> ParsedTimeline {
        guard let policy else { throw reader.missing("policy", inObjectAt: offset) }
        sortEntries()
        let hash = try visibleHash(without: place.map { requested[$0].volatileFields } ?? [])
        let isDated = entries[0].hasRelevance
        content.append("],\"policy\":")
        policy.append(to: &content)
        content.append(UInt8(ascii: "}"))
        guard content.count <= maximumContentBytes else {
            throw reader.failure(.invalidValue, "more than \(maximumContentBytes) bytes", at: offset)
        }
        capacity = content.count + content.count / 8
        var lints = TimelineLints(policy: policy, dates: entries.lazy.map(\.date))
        if place.flatMap({ requested[$0].family })?.hasOneLink == true, entries.contains(where: { $0.linkCount > 1 }) {
            lints.insert(.severalLinks)
        }
        var finished: [UInt8] = []
        swap(&finished, &content)
        return ParsedTimeline(
            policy: policy, firstEntryDate: entries[0].date, lastEntryDate: entries[entries.count - 1].date,
            entryCount: entries.count, lints: lints,
            content: finished, hash: isDated ? hash : hash.dated(entries[0].date), undatedHash: isDated ? nil : hash)
    }

    // MARK: Entries

    private mutating func readEntries(from reader: inout JSONReader) throws(JSONError) -> Bool {
        guard try !reader.takeNull() else { return false }
        try reader.expect(.array)
        let offset = reader.position
        entries.removeAll(keepingCapacity: true)
        content.removeAll(keepingCapacity: true)
        content.reserveCapacity(capacity)
        content.append(contentsOf: Self.start)
        try reader.beginArray()
        while try reader.nextElement() {
            guard entries.count < maximumEntries else {
                throw reader.failure(.invalidValue, "more than \(maximumEntries) entries", at: offset)
            }
            if !entries.isEmpty { content.append(UInt8(ascii: ",")) }
            entries.append(try CanonicalEntry(from: &reader, into: &content))
            guard content.count <= maximumContentBytes else {
                throw reader.failure(.invalidValue, "more than \(maximumContentBytes) bytes", at: offset)
            }
        }
        guard !entries.isEmpty else { throw reader.failure(.invalidValue, "expected at least one entry", at: offset) }
        return true
    }

    /// Sorts entries that are not in the order of their dates.
    private mutating func sortEntries() {
        guard !zip(entries, entries.dropFirst()).allSatisfy({ $0.date <= $1.date }) else { return }
        var sorted = Self.start
        sorted.reserveCapacity(content.capacity)
        let order = entries.indices.sorted { (entries[$0].date, $0) < (entries[$1].date, $1) }
        entries = order.map { index in
            if sorted.count > Self.start.count { sorted.append(UInt8(ascii: ",")) }
            let moved = entries[index].moved(to: sorted.count)
            sorted.append(contentsOf: content[entries[index].range])
            return moved
        }
        content = sorted
    }

    // MARK: Hashes

    /// Hash of the entries as devices show them: without volatile fields, entries that show the same as the one before,
    /// and the date of the first entry unless its relevance begins then.
    private func visibleHash(without volatileFields: [JSONPointer]) throws(JSONError) -> ContentHash {
        let first = entries[0]
        guard volatileFields.isEmpty, !hasRepeats else {
            return ContentHash(ofContent: try visibleForm(without: volatileFields)[...])
        }
        return first.hasRelevance
            ? ContentHash(ofContent: content[...])
            : ContentHash(ofContent: content[..<first.contentEnd], content[first.dateEnd...])
    }

    private var hasRepeats: Bool {
        for index in 1..<entries.count where repeatsThePrevious(index) { return true }
        return false
    }

    private func repeatsThePrevious(_ index: Int) -> Bool {
        let (entry, previous) = (entries[index], entries[index - 1])
        let bytes = content.span
        return !entry.hasRelevance
            && Text.equal(bytes.extracting(contentRange(entry)), bytes.extracting(contentRange(previous)))
            && Text.equal(
                bytes.extracting(entry.dateEnd..<entry.range.upperBound),
                bytes.extracting(previous.dateEnd..<previous.range.upperBound))
    }

    private func contentRange(_ entry: CanonicalEntry) -> Range<Int> {
        entry.range.lowerBound + CanonicalEntry.start.count..<entry.contentEnd
    }

    /// The form that ``visibleHash(without:)`` hashes.
    private func visibleForm(without volatileFields: [JSONPointer]) throws(JSONError) -> [UInt8] {
        var form = Self.start
        form.reserveCapacity(content.count)
        var previous: (content: ArraySlice<UInt8>, rest: ArraySlice<UInt8>)?
        for (index, entry) in entries.enumerated() {
            let range = contentRange(entry)
            let visible =
                try volatileFields.isEmpty ? content[range] : volatileFields.canonicalRest(of: content, in: range)[...]
            let rest = content[entry.dateEnd..<entry.range.upperBound]
            if let previous, !entry.hasRelevance, previous.content == visible, previous.rest == rest { continue }
            if previous != nil { form.append(UInt8(ascii: ",")) }
            form.append(contentsOf: CanonicalEntry.start)
            form.append(contentsOf: visible)
            if index > 0 || entry.hasRelevance { form.append(contentsOf: content[entry.contentEnd..<entry.dateEnd]) }
            form.append(contentsOf: rest)
            previous = (visible, rest)
        }
        return form
    }
}

extension [JSONPointer] {
    /// The canonical form of an entry's content without these fields, which do not count as a change; `null` if all of
    /// it is volatile. Elements of arrays are removed like members of objects.
    fileprivate func canonicalRest(of content: [UInt8], in range: Range<Int>) throws(JSONError) -> [UInt8] {
        let value = try JSONValue.parse(content, in: range)
        return (Self.rest(of: value, without: map { $0.tokens[...] }) ?? .null).canonicalBytes
    }

    /// - Returns: nil if one of the paths ends here.
    private static func rest(of value: JSONValue, without paths: [ArraySlice<String>]) -> JSONValue? {
        guard paths.allSatisfy({ !$0.isEmpty }) else { return nil }
        func below(_ token: String, orEach: Bool = false) -> [ArraySlice<String>] {
            paths.filter { Text.equal($0.first, token) || orEach && Text.equal($0.first, JSONPointer.everyElement) }
                .map { $0.dropFirst() }
        }
        switch value {
        case .object(let object) where !paths.isEmpty:
            let members = object.members.compactMap { member in
                rest(of: member.value, without: below(member.key)).map { (key: member.key, value: $0) }
            }
            return .object(JSONObject(unique: members))
        case .array(let elements) where !paths.isEmpty:
            return .array(elements.enumerated().compactMap { rest(of: $1, without: below("\($0)", orEach: true)) })
        default:
            return value
        }
    }
}

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
        var contentEnd: Int?
        var date: Timestamp?
        var dateText: JSONStringToken?
        var relevance: (score: Range<Int>, duration: Range<Int>?)?
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
                try reader.canonicalize(into: &buffer, after: "{\"content\":")
                contentEnd = buffer.count
            case "relevance":
                guard try !reader.takeNull() else { continue }
                relevance = try Self.readRelevance(from: &reader)
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
        date: Timestamp, dateText: JSONStringToken, links: [UInt8],
        relevance: (score: Range<Int>, duration: Range<Int>?)?, url: JSONStringToken?, reader: inout JSONReader,
        to buffer: inout [UInt8]
    ) -> Int {
        let isCanonical = !dateText.hasEscapes && Self.isCanonicalDate(reader.bytes.span.extracting(dateText.range))
        if isCanonical, links.isEmpty, relevance == nil, url == nil {
            // The common case takes a single call.
            reader.append(dateText, after: ",\"date\":", before: "}", to: &buffer)
            return buffer.count - 1
        }
        if isCanonical {
            reader.append(dateText, after: ",\"date\":", to: &buffer)
        } else {
            buffer.append(",\"date\":\"")
            date.appendRFC3339(to: &buffer)
            buffer.append(UInt8(ascii: "\""))
        }
        let dateEnd = buffer.count
        if !links.isEmpty {
            buffer.append(",\"links\":")
            buffer.append(contentsOf: links)
        }
        if let relevance {
            buffer.append(",\"relevance\":{")
            if let duration = relevance.duration {
                buffer.append("\"duration\":")
                reader.append(number: duration, to: &buffer)
                buffer.append(UInt8(ascii: ","))
            }
            buffer.append("\"score\":")
            reader.append(number: relevance.score, to: &buffer)
            buffer.append(UInt8(ascii: "}"))
        }
        if let url {
            reader.append(url, after: ",\"url\":", to: &buffer)
        }
        buffer.append(UInt8(ascii: "}"))
        return dateEnd
    }

    /// Whether the text of a valid date equals the output of `Timestamp.rfc3339`: UTC, whole seconds, no leap second.
    private static func isCanonicalDate(_ text: Span<UInt8>) -> Bool {
        text.count == 20 && text[10] == UInt8(ascii: "T") && text[19] == UInt8(ascii: "Z")
            && text[17] != UInt8(ascii: "6")
    }

    /// Number literals of a relevance. A duration of zero is left out.
    private static func readRelevance(
        from reader: inout JSONReader
    ) throws(JSONError) -> (score: Range<Int>, duration: Range<Int>?) {
        var score: Range<Int>?
        var duration: Range<Int>?
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "score": score = try reader.numberToken()
            case "duration":
                guard try !reader.takeNull() else { continue }
                let seconds = try reader.seconds()
                duration = seconds.value > 0 ? seconds.literal : nil
            default: try reader.skip()
            }
        }
        return (try reader.require(score, "score", ofObjectAt: object), duration)
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

extension JSONValue {
    /// Variants of an entry's content for light and dark surroundings; nil for content that names none.
    ///
    /// Content is the app's own. By convention an object whose members are `light`, `dark` or both has variants.
    package var variants: (light: JSONValue?, dark: JSONValue?)? {
        guard let object = objectValue, !object.isEmpty,
            object.keys.allSatisfy({ $0 == "light" || $0 == "dark" })
        else { return nil }
        return (object["light"], object["dark"])
    }
}
