/// Bounds of what a provider may answer for one timeline.
package struct ProviderLimits: Hashable, Sendable {
    package var maximumEntries: Int
    /// Of the canonical form that is stored.
    package var maximumContentBytes: Int

    package init(maximumEntries: Int = 1000, maximumContentBytes: Int = 262_144) {
        self.maximumEntries = maximumEntries
        self.maximumContentBytes = maximumContentBytes
    }
}

/// A timeline as a provider gave it, ready to be stored.
package struct ParsedTimeline: Hashable, Sendable {
    package let policy: ReloadPolicy
    package let firstEntryDate: Timestamp
    package let lastEntryDate: Timestamp
    package let entryCount: Int
    package let lints: TimelineLints
    /// Canonical JSON (RFC 8785) `{"entries": […], "policy": …}`: entries sorted by date, those of equal dates as the
    /// provider gave them, dates in UTC.
    package let content: [UInt8]
    /// Of the entries without the kind's volatile fields: equal hashes mean that nothing visible has changed. The policy is
    /// left out, for it is none of what people see: a provider that says `after` an hour from now each time would
    /// otherwise change its timeline each time.
    package let hash: ContentHash
}

/// What a response says of one requested timeline.
package enum ProviderOutcome: Hashable, Sendable {
    case timeline(ParsedTimeline)
    /// The provider could not make it. `retryAfter` is at most a day.
    case failed(code: String, message: String, retryAfter: Duration?)
    /// The response does not have it.
    case missing
    /// The response has it more than once, so that none can be trusted.
    case duplicate
    /// What the response has is no timeline; the pointer is into the response.
    case invalid(ModelError)
}

/// A provider's answer to a batch, read without a tree.
package struct ProviderResponse: Sendable {
    /// Of each requested timeline, in the order of the request.
    package internal(set) var outcomes: [ProviderOutcome]
    /// The first ids that nobody asked for, cut to a length fit for a log.
    package internal(set) var foreignIDs: [String] = []
    /// How many there are.
    package internal(set) var foreignCount = 0
    /// The first elements of which not even the id could be read.
    package internal(set) var unreadable: [ModelError] = []

    /// How many foreign ids and unreadable elements are kept.
    package static let keptComplaints = 16

    /// Reads a response body.
    ///
    /// An element that is JSON but no timeline costs only that timeline; a body that is no JSON, or not an object with
    /// `timelines`, throws. Of a request that has an id twice, the first one gets the outcome.
    ///
    /// - Parameters:
    ///   - requested: what was asked for.
    ///   - volatileFields: pointers into an entry's content that do not count as a change.
    package static func parse(
        _ bytes: [UInt8], in range: Range<Int>? = nil, requested: [TimelineID], limits: ProviderLimits = .init(),
        volatileFields: [JSONPointer] = []
    ) throws(JSONError) -> ProviderResponse {
        var places: [TimelineID: Int] = [:]
        places.reserveCapacity(requested.count)
        for (index, id) in requested.enumerated() where places[id] == nil { places[id] = index }

        var response = ProviderResponse(outcomes: Array(repeating: .missing, count: requested.count))
        var reader = JSONReader(bytes, in: range)
        try reader.expect(.object)
        let offset = reader.position
        var hasTimelines = false
        var object = try reader.beginObject()
        var parser = TimelineParser(limits: limits, volatileFields: VolatileFields(volatileFields))
        while let key = try reader.nextKey(&object) {
            guard reader.matches(key, "timelines") else {
                try reader.skip()
                continue
            }
            hasTimelines = true
            var array = try reader.beginArray()
            while try reader.nextElement(&array) {
                _ = try reader.peek()
                // So that many bad elements do not cost a reading of all before them each.
                reader.origin = .init(start: reader.position, array: "/timelines", index: array.index)
                try response.readElement(from: &reader, with: &parser, places: places)
            }
            reader.origin = nil
        }
        try reader.finish()
        guard hasTimelines else { throw reader.missing("timelines", inObjectAt: offset) }
        return response
    }

    private mutating func readElement(
        from reader: inout JSONReader, with parser: inout TimelineParser, places: [TimelineID: Int]
    ) throws(JSONError) {
        let start = reader.checkpoint
        let offset = reader.position
        let id: ElementID?
        let outcome: ProviderOutcome
        do throws(JSONError) {
            (id, outcome) = try parser.read(from: &reader)
        } catch {
            // A syntax error leaves no way to find the next element. After any other the brackets still tell.
            guard error.kind != .syntax else { throw error }
            reader.rewind(to: start)
            id = reader.looseMember("id").flatMap(ElementID.init)
            try reader.looseSkip()
            outcome = .invalid(error.modelError)
        }
        switch id {
        case .timeline(let id):
            guard let place = places[id] else {
                addForeign(id.description)
                return
            }
            if case .missing = outcomes[place] { outcomes[place] = outcome } else { outcomes[place] = .duplicate }
        case .other(let text):
            addForeign(text)
        case nil:
            guard unreadable.count < Self.keptComplaints else { return }
            if case .invalid(let error) = outcome {
                unreadable.append(error)
            } else {
                unreadable.append(reader.missing("id", inObjectAt: offset).modelError)
            }
        }
    }

    private mutating func addForeign(_ id: String) {
        foreignCount += 1
        if foreignIDs.count < Self.keptComplaints { foreignIDs.append(Text.printable(id, maximum: 64)) }
    }
}

/// The id of an element of a response.
enum ElementID {
    case timeline(TimelineID)
    /// Not even of the right form.
    case other(String)

    init(_ bytes: ArraySlice<UInt8>) {
        if let id = TimelineID(bytes: bytes) {
            self = .timeline(id)
        } else {
            self = .other(String(decoding: bytes.prefix(256), as: UTF8.self))
        }
    }
}
