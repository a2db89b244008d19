import JSON

/// Reads elements of a provider's response, one after another.
///
/// The canonical form of a timeline is written once, into the array that is hashed, stored and published.
struct TimelineParser: ElementParser {
    let limits: ProviderLimits
    let requested: [RequestedTimeline]

    /// Canonical form of the current timeline's entries, in the order in which they were read.
    private var content: [UInt8] = []
    private var entries: [CanonicalEntry] = []
    private var policy: ReloadPolicy?
    /// Capacity for the next timeline's content, a little more than the last one used.
    private var capacity = 1024

    private static let start = Array("{\"entries\":[".utf8)

    let valueMember: ShortText = "entries"

    init(limits: ProviderLimits, requested: [RequestedTimeline]) {
        self.limits = limits
        self.requested = requested
    }

    mutating func begin() { policy = nil }

    mutating func read(_ key: JSONKey, from reader: inout JSONReader) throws(JSONError) -> Bool {
        switch key {
        case "policy": policy = try reader.takeNull() ? nil : try reader.reloadPolicy()
        case "entries":
            guard try !reader.takeNull() else { return false }
            try readEntries(from: &reader)
            return true
        default: try reader.skip()
        }
        return false
    }

    mutating func finish(
        place: Int?, _ reader: inout JSONReader, at offset: Int
    ) throws(JSONError) -> ParsedTimeline {
        guard let policy else { throw reader.missing("policy", inObjectAt: offset) }
        let volatileFields = place.map { requested[$0].volatileFields } ?? .none
        return try timeline(
            policy, volatileFields, family: place.flatMap { requested[$0].family }, reader: &reader, offset: offset)
    }

    // MARK: Entries

    private mutating func readEntries(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.array)
        let offset = reader.position
        entries.removeAll(keepingCapacity: true)
        content.removeAll(keepingCapacity: true)
        content.reserveCapacity(capacity)
        content.append(contentsOf: Self.start)
        try reader.beginArray()
        while try reader.nextElement() {
            guard entries.count < limits.maximumEntries else {
                throw reader.failure(.invalidValue, "more than \(limits.maximumEntries) entries", at: offset)
            }
            if !entries.isEmpty { content.append(UInt8(ascii: ",")) }
            entries.append(try CanonicalEntry(from: &reader, into: &content))
            guard content.count <= limits.maximumContentBytes else {
                throw reader.failure(.invalidValue, "more than \(limits.maximumContentBytes) bytes", at: offset)
            }
        }
        guard !entries.isEmpty else { throw reader.failure(.invalidValue, "expected at least one entry", at: offset) }
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

    // MARK: Result

    /// Returns the timeline and gives up its content.
    private mutating func timeline(
        _ policy: ReloadPolicy, _ volatileFields: VolatileFields, family: WidgetFamily?, reader: inout JSONReader,
        offset: Int
    ) throws(JSONError) -> ParsedTimeline {
        sortEntries()
        let hash = try visibleHash(without: volatileFields)
        let isDated = entries[0].hasRelevance
        content.append(contentsOf: "],\"policy\":".utf8)
        policy.append(to: &content)
        content.append(UInt8(ascii: "}"))
        guard content.count <= limits.maximumContentBytes else {
            throw reader.failure(.invalidValue, "more than \(limits.maximumContentBytes) bytes", at: offset)
        }
        capacity = content.count + content.count / 8
        var lints = TimelineLints(policy: policy, dates: entries.lazy.map(\.date))
        if family == .systemSmall, entries.contains(where: { $0.linkCount > 1 }) { lints.insert(.severalLinks) }
        var finished: [UInt8] = []
        swap(&finished, &content)
        return ParsedTimeline(
            policy: policy, firstEntryDate: entries[0].date, lastEntryDate: entries[entries.count - 1].date,
            entryCount: entries.count, lints: lints,
            content: finished, hash: isDated ? hash : hash.dated(entries[0].date), undatedHash: isDated ? nil : hash)
    }

    /// Hash of the entries as devices show them: without volatile fields, entries that show the same as the one before,
    /// and the date of the first entry unless its relevance begins then.
    private func visibleHash(without volatileFields: VolatileFields) throws(JSONError) -> ContentHash {
        let first = entries[0]
        guard volatileFields.isEmpty, !hasRepeats else {
            return ContentHash(of: try visibleForm(without: volatileFields))
        }
        return first.hasRelevance
            ? ContentHash(of: content[...]) : ContentHash(of: content[..<first.contentEnd], content[first.dateEnd...])
    }

    private var hasRepeats: Bool {
        for index in 1..<entries.count where repeatsThePrevious(index) { return true }
        return false
    }

    private func repeatsThePrevious(_ index: Int) -> Bool {
        let (entry, previous) = (entries[index], entries[index - 1])
        return !entry.hasRelevance && contentRange(entry).count == contentRange(previous).count
            && content[contentRange(entry)] == content[contentRange(previous)]
            && content[entry.dateEnd..<entry.range.upperBound]
                == content[previous.dateEnd..<previous.range.upperBound]
    }

    private func contentRange(_ entry: CanonicalEntry) -> Range<Int> {
        entry.range.lowerBound + CanonicalEntry.start.count..<entry.contentEnd
    }

    /// The form that ``visibleHash(without:)`` hashes.
    private func visibleForm(without volatileFields: VolatileFields) throws(JSONError) -> [UInt8] {
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
