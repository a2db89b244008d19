/// Outcome of one requested element of an answer.
package protocol ElementOutcome: Hashable, Sendable {
    /// The answer does not have it.
    static var missing: Self { get }
    /// The answer has it more than once, so that none can be trusted.
    static var duplicate: Self { get }
    /// The element is invalid; the pointer is into the answer.
    static func invalid(_ error: ModelError) -> Self
}

/// Reads the elements of an answer's list, one after the other.
protocol ElementParser {
    associatedtype Outcome: ElementOutcome

    /// Reads the next element: its id, if it has one, and its outcome.
    mutating func read(
        from reader: inout JSONReader, requested: RequestedElements
    ) throws(JSONError) -> (id: ElementID?, outcome: Outcome)
}

/// Places of the elements that were asked for, by their ids. An id that was asked for twice has the first place.
struct RequestedElements {
    private var places: [TimelineID: Int] = [:]

    init(_ ids: some Collection<TimelineID>) {
        places.reserveCapacity(ids.count)
        for (place, id) in ids.enumerated() where places[id] == nil { places[id] = place }
    }

    /// The requested element that an id in the answer names.
    func element(_ id: ArraySlice<UInt8>) -> ElementID {
        TimelineID(bytes: id).flatMap { places[$0] }.map(ElementID.requested) ?? .foreign(id)
    }
}

/// The id of an element of an answer.
enum ElementID {
    /// Place of an element that was asked for.
    case requested(Int)
    /// Id that was not requested, as it is in the answer.
    case foreign(ArraySlice<UInt8>)
}

/// A provider's answer to a batch, `{"<list>": [{"id", …}]}`, read without a tree.
package struct ProviderAnswer<Outcome: ElementOutcome>: Sendable {
    /// Of each requested element, in the order of the request.
    package internal(set) var outcomes: [Outcome]
    /// The first ids that were not requested, cut to a length fit for a log.
    package internal(set) var foreignIDs: [String] = []
    /// How many there are.
    package internal(set) var foreignCount = 0
    /// Errors of the first elements whose id could not be read.
    package internal(set) var unreadable: [ModelError] = []

    /// How many foreign ids and unreadable elements are kept.
    package static var keptComplaints: Int { 16 }

    /// Reads a body.
    ///
    /// An element that is JSON but not what it should be costs only that element; a body that is no JSON, or not an
    /// object with the list, throws. Of a request that has an id twice, the first one gets the outcome.
    ///
    /// - Parameters:
    ///   - list: name of the member with the elements.
    ///   - requested: what was asked for.
    init<Parser: ElementParser>(
        _ bytes: [UInt8], in range: Range<Int>?, list: StaticString, requested: some Collection<TimelineID>,
        parser: Parser
    ) throws(JSONError) where Parser.Outcome == Outcome {
        let elements = RequestedElements(requested)
        outcomes = Array(repeating: .missing, count: requested.count)
        var reader = JSONReader(bytes, in: range)
        try reader.expect(.object)
        let offset = reader.position
        var hasList = false
        var object = try reader.beginObject()
        var parser = parser
        let pointer = "/\(list)"
        while let key = try reader.nextKey(&object) {
            guard reader.matches(key, list) else {
                try reader.skip()
                continue
            }
            hasList = true
            var array = try reader.beginArray()
            while try reader.nextElement(&array) {
                _ = try reader.peek()
                // So that many bad elements do not cost a reading of all before them each.
                reader.origin = .init(start: reader.position, array: pointer, index: array.index)
                try readElement(from: &reader, with: &parser, requested: elements)
            }
            reader.origin = nil
        }
        try reader.finish()
        guard hasList else { throw reader.missing("\(list)", inObjectAt: offset) }
    }

    private mutating func readElement<Parser: ElementParser>(
        from reader: inout JSONReader, with parser: inout Parser, requested: RequestedElements
    ) throws(JSONError) where Parser.Outcome == Outcome {
        let start = reader.checkpoint
        let offset = reader.position
        let id: ElementID?
        let outcome: Outcome
        var complaint: ModelError?
        do throws(JSONError) {
            (id, outcome) = try parser.read(from: &reader, requested: requested)
        } catch {
            // A syntax error leaves no way to find the next element. After any other the brackets still tell.
            guard error.kind != .syntax else { throw error }
            reader.rewind(to: start)
            id = reader.looseMember("id").map(requested.element)
            try reader.looseSkip()
            complaint = error.modelError
            outcome = .invalid(error.modelError)
        }
        switch id {
        case .requested(let place):
            outcomes[place] = outcomes[place] == .missing ? outcome : .duplicate
        case .foreign(let id):
            foreignCount += 1
            guard foreignIDs.count < Self.keptComplaints else { return }
            foreignIDs.append(Text.printable(String(decoding: id.prefix(256), as: UTF8.self), maximum: 64))
        case nil:
            guard unreadable.count < Self.keptComplaints else { return }
            unreadable.append(complaint ?? reader.missing("id", inObjectAt: offset).modelError)
        }
    }
}
