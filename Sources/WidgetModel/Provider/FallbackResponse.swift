/// Outcome of one requested snapshot or placeholder.
package enum FallbackOutcome: ElementOutcome {
    /// Canonical JSON (RFC 8785) of the snapshot's entry, as it would lie in a timeline, or of the placeholder's content.
    case value([UInt8])
    /// The provider could not make it.
    case failed(code: String, message: String)
    /// The answer does not have it.
    case missing
    /// The answer has it more than once, so that none can be trusted.
    case duplicate
    /// The element is invalid; the pointer is into the answer.
    case invalid(ModelError)
}

/// Answer to a request for snapshots or placeholders:
/// `{"snapshots": [{"id", "entry"} | {"id", "error"}]}`, `{"placeholders": [{"id", "content"} | {"id", "error"}]}`.
package typealias FallbackResponse = ProviderAnswer<FallbackOutcome>

extension ProviderAnswer where Outcome == FallbackOutcome {
    /// Reads the answer to a request for snapshots; see ``init(_:in:list:requested:parser:)``.
    package static func snapshots(
        _ bytes: [UInt8], in range: Range<Int>? = nil, requested: [TimelineID], limits: ProviderLimits = .init()
    ) throws(JSONError) -> FallbackResponse {
        try FallbackResponse(
            bytes, in: range, list: "snapshots", requested: requested,
            parser: FallbackParser(form: .entry, maximumBytes: limits.maximumContentBytes))
    }

    /// Reads the answer to a request for placeholders.
    package static func placeholders(
        _ bytes: [UInt8], in range: Range<Int>? = nil, requested: [TimelineID]
    ) throws(JSONError) -> FallbackResponse {
        try FallbackResponse(
            bytes, in: range, list: "placeholders", requested: requested,
            parser: FallbackParser(form: .content, maximumBytes: KindDefinition.maximumPlaceholderBytes))
    }
}

/// Reads elements that hold one value or an error.
struct FallbackParser: ElementParser {
    enum Form {
        /// An entry of a timeline.
        case entry
        /// The app's own JSON.
        case content

        /// The member that holds it.
        var name: StaticString {
            switch self {
            case .entry: "entry"
            case .content: "content"
            }
        }
    }

    let form: Form
    /// Of the canonical form.
    let maximumBytes: Int

    func read(
        from reader: inout JSONReader, requested: RequestedElements
    ) throws(JSONError) -> (id: ElementID?, outcome: FallbackOutcome) {
        try reader.expect(.object)
        let offset = reader.position
        var id: ElementID?
        var value: [UInt8]?
        var failure: ElementError?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "id") {
                let token = try reader.stringToken()
                id = requested.element(reader.utf8(of: token))
            } else if reader.matches(key, form.name) {
                value = try readValue(from: &reader)
            } else if reader.matches(key, "error") {
                guard try !reader.takeNull() else { continue }
                failure = try ElementError(from: &reader)
            } else {
                try reader.skip()
            }
        }
        switch (value, failure) {
        case (let value?, nil):
            return (id, .value(value))
        case (nil, let failure?):
            return (id, .failed(code: failure.code, message: failure.message))
        case (nil, nil):
            throw reader.missing("\(form.name)", inObjectAt: offset)
        case (_?, _?):
            throw reader.failure(.invalidValue, "has both \(form.name) and an error", at: offset)
        }
    }

    /// Nil for `null`, as it stands beside an error.
    private func readValue(from reader: inout JSONReader) throws(JSONError) -> [UInt8]? {
        guard try !reader.takeNull() else { return nil }
        _ = try reader.peek()
        let offset = reader.position
        var buffer: [UInt8] = []
        switch form {
        case .entry: _ = try CanonicalEntry(from: &reader, into: &buffer)
        case .content: try reader.canonicalize(into: &buffer)
        }
        guard buffer.count <= maximumBytes else {
            throw reader.failure(.invalidValue, "more than \(maximumBytes) bytes", at: offset)
        }
        return buffer
    }
}
