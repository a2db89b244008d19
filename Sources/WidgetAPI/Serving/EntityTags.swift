// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import WidgetModel
import WidgetStore

/// The entity tags of an `If-None-Match` header, compared weakly (RFC 9110, section 13.1.2).
///
/// Tags are weak, since age and staleness change while the content does not.
struct EntityTags: Sendable {
    private let tags: [Substring]
    /// Whether the reader has any content (`*`).
    let isAny: Bool
    /// Hashes of stored content that the reader has.
    let hashes: [ContentHash]

    init(_ fields: [String]) {
        let parts = fields.flatMap { (field: String) -> [Substring] in field.split(separator: ",") }
            .map { (part: Substring) -> Substring in part.drop { $0 == " " }.prefix { $0 != " " } }
        isAny = parts.contains("*")
        tags = parts.prefix(64).map { $0.hasPrefix("W/") ? $0.dropFirst(2) : $0 }
        hashes = tags.compactMap { tag in
            guard tag.count == 38, tag.first == "\"", tag.last == "\"" else { return nil }
            return TimelineID(String(tag.dropFirst().dropLast())).map { ContentHash(high: $0.high, low: $0.low) }
        }
    }

    func contain(_ tag: String) -> Bool {
        isAny || tags.contains { $0.utf8.elementsEqual(tag.utf8.dropFirst(2)) }
    }

    static func tag(_ hash: ContentHash) -> String { "W/\"\(hash)\"" }

    /// The tag of a revision of a schedule.
    static func tag(revision: Int64) -> String { "W/\"\(revision)\"" }
}

extension Response {
    /// The response to a conditional request: the document, or 304 if the caller has it.
    init(_ document: [UInt8]?, _ tag: String?, revision: Int64?, isStale: Bool? = nil, age: Duration? = nil) {
        var headers: HTTPFields = [.cacheControl: "private, no-cache", .vary: "Accept-Encoding"]
        headers[.eTag] = tag
        headers[.freshetStale] = isStale.map { "\($0)" }
        headers[.freshetRevision] = revision.map { "\($0)" }
        headers[.age] = age.map { "\($0.components.seconds)" }
        if document != nil { headers[.contentType] = "application/json" }
        self.init(
            status: document == nil ? .notModified : .ok, headers: headers,
            body: document.map { ResponseBody(byteBuffer: ByteBuffer(bytes: $0)) } ?? ResponseBody())
    }
}
