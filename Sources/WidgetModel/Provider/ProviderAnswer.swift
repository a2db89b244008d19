import JSON

/// Outcome of one requested element of an answer.
package enum ElementOutcome<Value: Hashable & Sendable>: Hashable, Sendable {
    case value(Value)
    /// The provider could not make the element. `retryAfter` is at most a day.
    case failed(code: String, message: String, retryAfter: Duration?)
    /// The answer does not contain the element.
    case missing
    /// The answer contains the element more than once, so that no copy can be trusted.
    case duplicate
    /// The element is invalid; the pointer is into the answer.
    case invalid(ModelError)
}

/// Reads the values of an answer's elements, one after another.
protocol ElementParser {
    associatedtype Value: Hashable, Sendable

    /// Name of the required member.
    var valueMember: ShortText { get }

    /// Begins an element.
    mutating func begin()

    /// Reads a member of the current element, except its id and its error.
    ///
    /// - Returns: whether the value's member was read.
    mutating func read(_ key: JSONKey, from reader: inout JSONReader) throws(JSONError) -> Bool

    /// Ends the current element and returns its value.
    ///
    /// - Parameters:
    ///   - place: place of the element in the request; nil if it was not requested.
    ///   - offset: index of the element in the reader's bytes.
    mutating func finish(place: Int?, _ reader: inout JSONReader, at offset: Int) throws(JSONError) -> Value
}

/// A provider's answer to a batch, `{"<list>": [{"id", … | "error"}]}`, read without a tree.
package struct ProviderAnswer<Value: Hashable & Sendable>: Sendable {
    /// Outcomes of the requested elements, in the order of the request.
    package private(set) var outcomes: [ElementOutcome<Value>]
    /// The first ids that were not requested, cut to a length fit for a log.
    package private(set) var foreignIDs: [String] = []
    /// Number of ids that were not requested.
    package private(set) var foreignCount = 0
    /// Errors of the first elements whose id could not be read.
    package private(set) var unreadable: [ModelError] = []

    /// Places of the requested elements. An id that was requested twice has its first place.
    private let places: [TimelineID: Int]

    /// Number of foreign ids and of unreadable elements that are kept.
    package static var keptComplaints: Int { 16 }

    /// Reads a body.
    ///
    /// An invalid element that is still JSON affects only itself. A body that is not JSON, or not an object with the
    /// list, throws an error.
    ///
    /// - Parameters:
    ///   - list: name of the member with the elements.
    ///   - requested: ids of the requested elements.
    init<Parser: ElementParser>(
        _ bytes: [UInt8], list: ShortText, requested: [TimelineID], parser: Parser
    ) throws(JSONError) where Parser.Value == Value {
        places = Dictionary(zip(requested, 0...)) { first, _ in first }
        outcomes = Array(repeating: .missing, count: requested.count)
        var reader = JSONReader(bytes)
        var hasList = false
        var parser = parser
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case list:
                hasList = true
                try reader.beginArray()
                while try reader.nextElement() {
                    _ = try reader.peek()
                    try readElement(from: &reader, with: &parser)
                }
            default: try reader.skip()
            }
        }
        try reader.finish()
        guard hasList else { throw reader.missing("\(list)", inObjectAt: object) }
    }

    private mutating func readElement<Parser: ElementParser>(
        from reader: inout JSONReader, with parser: inout Parser
    ) throws(JSONError) where Parser.Value == Value {
        let start = reader.checkpoint
        let offset = reader.position
        let id: ArraySlice<UInt8>?
        let outcome: ElementOutcome<Value>
        var complaint: ModelError?
        do throws(JSONError) {
            (id, outcome) = try element(from: &reader, with: &parser)
        } catch {
            // After a syntax error the next element cannot be found. After any other error the brackets lead to it.
            guard error.kind != .syntax else { throw error }
            reader.rewind(to: start)
            id = try reader.skipLoosely(member: "id")
            complaint = error.modelError
            outcome = .invalid(error.modelError)
        }
        if let place = place(of: id) {
            outcomes[place] = outcomes[place] == .missing ? outcome : .duplicate
        } else if let id {
            foreignCount += 1
            guard foreignIDs.count < Self.keptComplaints else { return }
            foreignIDs.append(Text.printable(String(decoding: id.prefix(256), as: UTF8.self), maximum: 64))
        } else if unreadable.count < Self.keptComplaints {
            unreadable.append(complaint ?? reader.missing("id", inObjectAt: offset).modelError)
        }
    }

    private func place(of id: ArraySlice<UInt8>?) -> Int? {
        id.flatMap { TimelineID(bytes: $0) }.flatMap { places[$0] }
    }

    /// Reads the next element and returns its id, if it has one, and its outcome.
    private func element<Parser: ElementParser>(
        from reader: inout JSONReader, with parser: inout Parser
    ) throws(JSONError) -> (id: ArraySlice<UInt8>?, outcome: ElementOutcome<Value>) where Parser.Value == Value {
        var id: ArraySlice<UInt8>?
        var hasValue = false
        var failure: ElementOutcome<Value>?
        parser.begin()
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "id": id = reader.utf8(of: try reader.stringToken())
            case "error":
                guard try !reader.takeNull() else { continue }
                let error = try reader.elementError()
                failure = .failed(code: error.code, message: error.message, retryAfter: error.retryAfter)
            default:
                if try parser.read(key, from: &reader) { hasValue = true }
            }
        }
        if let failure {
            guard !hasValue else {
                throw reader.failure(.invalidValue, "has both \(parser.valueMember) and an error", at: object)
            }
            return (id, failure)
        }
        guard hasValue else { throw reader.missing("\(parser.valueMember)", inObjectAt: object) }
        return (id, .value(try parser.finish(place: place(of: id), &reader, at: object)))
    }
}

extension JSONReader {
    /// A provider's error for one element: `{"code", "message", "retryAfter"?}`.
    fileprivate mutating func elementError() throws(JSONError) -> (code: String, message: String, retryAfter: Duration?)
    {
        var code: String?
        var message: String?
        var retryAfter: Duration?
        let object = try beginObject()
        while let key = try nextKey() {
            switch key {
            case "code": code = Text.printable(try string(), maximum: 256)
            case "message": message = Text.printable(try string(), maximum: 256)
            case "retryAfter":
                guard try !takeNull() else { continue }
                let day = 86_400.0
                retryAfter = .milliseconds(Int64(min(try seconds().value, day) * 1000))
            default: try skip()
            }
        }
        return (
            try require(code, "code", ofObjectAt: object), try require(message, "message", ofObjectAt: object),
            retryAfter
        )
    }

    /// A number of seconds that is not negative, and its place in the bytes.
    mutating func seconds() throws(JSONError) -> (value: Double, literal: Range<Int>) {
        let literal = try numberToken()
        let value = value(of: literal)
        guard value >= 0 else {
            throw failure(
                .invalidValue, "expected seconds from 0, found a negative number", at: literal.lowerBound)
        }
        return (value, literal)
    }
}
