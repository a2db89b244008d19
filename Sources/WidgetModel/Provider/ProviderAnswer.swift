// SPDX-License-Identifier: Apache-2.0

package import JSON

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
    package private(set) var outcomes: [Result<Value, ProviderFailure>]
    /// The first ids that were not requested, cut to a length fit for a log.
    package private(set) var foreignIDs: [String] = []
    /// Number of ids that were not requested.
    package private(set) var foreignCount = 0
    /// Errors of the first elements whose id could not be read.
    package private(set) var unreadable: [ModelError] = []

    /// The requested ids in their order, with their places. An id that was requested twice has its first place.
    private let places: [(id: TimelineID, place: Int)]

    /// Whether the answer has the requested elements, by place.
    private var isAnswered: [Bool]

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
        places = requested.enumerated().map { (id: $1, place: $0) }.sorted {
            $0.id != $1.id ? $0.id < $1.id : $0.place < $1.place
        }
        outcomes = Array(repeating: .failure(.missing), count: requested.count)
        isAnswered = Array(repeating: false, count: requested.count)
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
        let place: Int?
        let outcome: Result<Value, ProviderFailure>
        var complaint: ModelError?
        do throws(JSONError) {
            (id, place, outcome) = try element(from: &reader, with: &parser)
        } catch {
            // After a syntax error the next element cannot be found. After any other error the brackets lead to it.
            guard error.kind != .syntax else { throw error }
            reader.rewind(to: start)
            id = try reader.skipLoosely(member: "id")
            place = self.place(of: id)
            complaint = error.modelError
            outcome = .failure(ProviderFailure(.invalid, "\(error.modelError)"))
        }
        if let place {
            outcomes[place] = isAnswered[place] ? .failure(.duplicate) : outcome
            isAnswered[place] = true
        } else if let id {
            foreignCount += 1
            guard foreignIDs.count < Self.keptComplaints else { return }
            foreignIDs.append(Text.printable(String(decoding: id.prefix(256), as: UTF8.self), maximum: 64))
        } else if unreadable.count < Self.keptComplaints {
            unreadable.append(complaint ?? reader.missing("id", inObjectAt: offset).modelError)
        }
    }

    private func place(of id: ArraySlice<UInt8>?) -> Int? {
        guard let id, let wanted = TimelineID(bytes: id) else { return nil }
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if places[middle].id < wanted { low = middle + 1 } else { high = middle }
        }
        return low < places.count && places[low].id == wanted ? places[low].place : nil
    }

    /// Reads the next element and returns its id, if it has one, with its place in the request, and its outcome.
    private func element<Parser: ElementParser>(
        from reader: inout JSONReader, with parser: inout Parser
    ) throws(JSONError) -> (id: ArraySlice<UInt8>?, place: Int?, outcome: Result<Value, ProviderFailure>)
    where Parser.Value == Value {
        var id: ArraySlice<UInt8>?
        var hasValue = false
        var failure: ProviderFailure?
        parser.begin()
        let object = try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "id": id = reader.utf8(of: try reader.stringToken())
            case "error":
                guard try !reader.takeNull() else { continue }
                failure = try reader.elementError()
            default:
                if try parser.read(key, from: &reader) { hasValue = true }
            }
        }
        let place = place(of: id)
        if let failure {
            guard !hasValue else {
                throw reader.failure(.invalidValue, "has both \(parser.valueMember) and an error", at: object)
            }
            return (id, place, .failure(failure))
        }
        guard hasValue else { throw reader.missing("\(parser.valueMember)", inObjectAt: object) }
        return (id, place, .success(try parser.finish(place: place, &reader, at: object)))
    }
}

extension JSONReader {
    /// A provider's error for one element: `{"code", "message", "retryAfter"?}`.
    fileprivate mutating func elementError() throws(JSONError) -> ProviderFailure {
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
        let (name, text) = (
            try require(code, "code", ofObjectAt: object), try require(message, "message", ofObjectAt: object)
        )
        return ProviderFailure(.provider, "\(name): \(text)", retryAfter: retryAfter)
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

/// Answer to a request for snapshots or placeholders:
/// `{"snapshots": [{"id", "entry"} | {"id", "error"}]}`, `{"placeholders": [{"id", "content"} | {"id", "error"}]}`.
///
/// A value is canonical JSON (RFC 8785): the snapshot's entry, in the form of a timeline's entry, or the placeholder's
/// content.
package typealias FallbackResponse = ProviderAnswer<[UInt8]>

extension ProviderAnswer<[UInt8]> {
    /// Reads the answer to a request for snapshots.
    package static func snapshots(
        _ bytes: [UInt8], requested: [TimelineID], maximumBytes: Int = ParsedTimeline.maximumContentBytes
    ) throws(JSONError) -> FallbackResponse {
        try FallbackResponse(
            bytes, list: "snapshots", requested: requested,
            parser: FallbackParser(
                valueMember: "entry", isEntry: true, maximumBytes: maximumBytes))
    }

    /// Reads the answer to a request for placeholders.
    package static func placeholders(
        _ bytes: [UInt8], requested: [TimelineID]
    ) throws(JSONError) -> FallbackResponse {
        try FallbackResponse(
            bytes, list: "placeholders", requested: requested,
            parser: FallbackParser(
                valueMember: "content", isEntry: false, maximumBytes: KindDefinition.maximumPlaceholderBytes))
    }
}

/// Reads elements that hold one value or an error.
private struct FallbackParser: ElementParser {
    let valueMember: ShortText
    /// True for an entry of a timeline; false for the app's own JSON.
    let isEntry: Bool
    /// Limit of the canonical form.
    let maximumBytes: Int
    var value: [UInt8] = []

    mutating func begin() { value = [] }

    mutating func read(_ key: JSONKey, from reader: inout JSONReader) throws(JSONError) -> Bool {
        guard valueMember ~= key else {
            try reader.skip()
            return false
        }
        guard try !reader.takeNull() else { return false }
        let offset = reader.position
        if isEntry {
            _ = try CanonicalEntry(from: &reader, into: &value)
        } else {
            try reader.canonicalize(into: &value)
        }
        guard value.count <= maximumBytes else {
            throw reader.failure(.invalidValue, "more than \(maximumBytes) bytes", at: offset)
        }
        return true
    }

    func finish(place: Int?, _ reader: inout JSONReader, at offset: Int) -> [UInt8] { value }
}

/// Failure to fetch a timeline or a whole batch.
package struct ProviderFailure: Error, Hashable, Sendable {
    package enum Reason: String, CaseIterable, Sendable {
        /// The URL is not allowed, or its host has an address outside the allow-list.
        case refused
        case unresolved
        /// No connection, or it was lost before the answer was complete.
        case connection
        /// No complete answer within the kind's timeout.
        case timeout
        case status
        /// The answer is longer than the limit.
        case tooLarge
        /// The answer, or this timeline in it, violates the contract.
        case invalid
        case missing
        case duplicate
        /// The provider reported a failure for this timeline, or cannot be asked for it.
        case provider
        /// Requests to the provider are suspended after failures.
        case resting
        /// The timeline could not be stored, or is too large to publish.
        case storage
    }

    package var reason: Reason
    /// Description of the failure, its place and the expectation, without secrets and content.
    package var message: String
    /// Time from the request to the failure.
    package var fetchTime: Duration?
    /// Delay requested by the provider.
    package var retryAfter: Duration?
    /// Status of the answer, if it caused the failure.
    package var status: Int?
    /// Whether the provider answered the rest of the batch, so that it fails for this timeline.
    package var isPoison = false

    package init(_ reason: Reason, _ message: String, retryAfter: Duration? = nil, status: Int? = nil) {
        (self.reason, self.message, self.retryAfter, self.status) = (reason, message, retryAfter, status)
    }
}

extension ProviderFailure.Reason {
    /// Stored form.
    package var rule: ReloadRule {
        switch self {
        case .refused: .providerRefused
        case .unresolved: .providerUnresolved
        case .connection: .providerConnection
        case .timeout: .providerTimeout
        case .status: .providerStatus
        case .tooLarge: .providerTooLarge
        case .invalid: .providerInvalid
        case .resting: .providerResting
        case .missing: .providerMissing
        case .duplicate: .providerDuplicate
        case .provider: .providerError
        case .storage: .storage
        }
    }
}

extension ProviderFailure {
    /// Stored form.
    package var rule: ReloadRule { isPoison ? .providerPoison : reason.rule }

    /// Whether the provider has no such endpoint.
    package var saysAbsent: Bool { status == 404 || status == 405 || status == 501 }
}

extension ProviderFailure {
    /// Failure of an answer that cannot be read.
    package init(_ error: JSONError) {
        self.init(.invalid, "the answer is not what the contract says: \(error)")
    }

    /// The answer leaves out a requested element.
    package static let missing = ProviderFailure(.missing, "the answer leaves it out")
    /// The answer contains a requested element more than once, so that no copy can be trusted.
    package static let duplicate = ProviderFailure(.duplicate, "the answer has it more than once")
}
