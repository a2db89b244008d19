package import JSON

/// The fields of an entry's content that do not count as a change. The token `*` of a pointer names every element of a
/// list.
package struct VolatileFields: Sendable {
    private let paths: [ArraySlice<String>]

    /// No volatile fields: all content counts.
    package static let none = VolatileFields([])

    package init(_ pointers: [JSONPointer]) {
        paths = pointers.map { $0.tokens[...] }
    }

    var isEmpty: Bool { paths.isEmpty }

    /// The canonical form of content without the fields; `null` if all of it is volatile. Elements of arrays are
    /// removed like members of objects.
    func canonicalRest(of content: [UInt8], in range: Range<Int>) throws(JSONError) -> [UInt8] {
        (Self.rest(of: try JSONValue.parse(content, in: range), without: paths) ?? .null).canonicalBytes
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
                rest(of: member.value, without: below(member.key)).map { JSONObject.Member(key: member.key, value: $0) }
            }
            return .object(JSONObject(unique: members))
        case .array(let elements) where !paths.isEmpty:
            return .array(elements.enumerated().compactMap { rest(of: $1, without: below("\($0)", orEach: true)) })
        default:
            return value
        }
    }
}
