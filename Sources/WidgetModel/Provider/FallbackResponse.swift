package import JSON

/// Answer to a request for snapshots or placeholders:
/// `{"snapshots": [{"id", "entry"} | {"id", "error"}]}`, `{"placeholders": [{"id", "content"} | {"id", "error"}]}`.
///
/// A value is canonical JSON (RFC 8785): the snapshot's entry, in the form of a timeline's entry, or the placeholder's
/// content.
package typealias FallbackResponse = ProviderAnswer<[UInt8]>

extension ProviderAnswer<[UInt8]> {
    /// Reads the answer to a request for snapshots.
    package static func snapshots(
        _ bytes: [UInt8], requested: [TimelineID], limits: ProviderLimits = .init()
    ) throws(JSONError) -> FallbackResponse {
        try FallbackResponse(
            bytes, list: "snapshots", requested: requested,
            parser: FallbackParser(
                valueMember: "entry", isEntry: true, maximumBytes: limits.maximumContentBytes))
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
