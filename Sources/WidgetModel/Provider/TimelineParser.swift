/// Reads elements of a provider's response, one after the other, reusing its buffers.
struct TimelineParser: ElementParser {
    let limits: ProviderLimits
    let volatileFields: VolatileFields

    /// Canonical entries of the current timeline, in the order in which they came.
    private var buffer: [UInt8] = []
    private var entries: [CanonicalEntry] = []

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
                failure = try ElementError(from: &reader).outcome
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
            entries.append(try CanonicalEntry(from: &reader, into: &buffer))
            guard buffer.count <= limits.maximumContentBytes else {
                throw reader.failure(.invalidValue, "more than \(limits.maximumContentBytes) bytes", at: offset)
            }
        }
        guard !entries.isEmpty else { throw reader.failure(.invalidValue, "expected at least one entry", at: offset) }
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
            form.append(contentsOf: CanonicalEntry.start)
            let content = try JSONValue.parse(
                buffer, in: (entry.range.lowerBound + CanonicalEntry.start.count)..<entry.contentEnd)
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
