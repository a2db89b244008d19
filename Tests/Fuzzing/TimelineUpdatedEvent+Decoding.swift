// SPDX-License-Identifier: Apache-2.0

package import JSON
package import WidgetEvents
import WidgetModel

extension TimelineUpdatedEvent {
    /// Decodes the event's data for a consumer of the timelines topic.
    package init(data bytes: [UInt8], in range: Range<Int>? = nil) throws(JSONError) {
        var reader = JSONReader(bytes, in: range)
        try reader.expect(.object)
        let offset = reader.position
        var fields = Fields()
        try reader.beginObject()
        while let key = try reader.nextKey() { try fields.read(key, from: &reader) }
        try reader.finish()
        func require<Value>(_ value: Value?, _ member: String) throws(JSONError) -> Value {
            guard let value else { throw reader.missing(member, inObjectAt: offset) }
            return value
        }
        var content = Array("{\"entries\":".utf8)
        content.append(contentsOf: try require(fields.entries, "entries"))
        content.append(contentsOf: ",\"policy\":".utf8)
        content.append(contentsOf: try require(fields.policy, "policy"))
        content.append(UInt8(ascii: "}"))
        self.init(
            timeline: try require(fields.timeline, "timeline"),
            identity: TimelineIdentity(
                app: try require(fields.app, "app"), kind: try require(fields.kind, "kind"), family: fields.family,
                configuration: try require(fields.configuration, "configuration"), locale: fields.locale,
                timeZone: fields.timeZone, user: fields.user),
            revision: try require(fields.revision, "revision"), storedAt: fields.storedAt, content: content)
    }

    private struct Fields {
        var timeline: TimelineID?
        var revision: Int64?
        var storedAt: Timestamp?
        var app: String?
        var kind: String?
        var family: WidgetFamily?
        var configuration: WidgetConfiguration?
        var locale: String?
        var timeZone: String?
        var user: String?
        var entries: [UInt8]?
        var policy: [UInt8]?

        mutating func read(_ key: JSONKey, from reader: inout JSONReader) throws(JSONError) {
            switch key {
            case "timeline": timeline = try reader.string("a UUID") { TimelineID(bytes: $0) }
            case "revision": revision = try reader.number().int64
            case "storedAt": storedAt = try reader.timestamp()
            case "app": app = try reader.identifier()
            case "kind": kind = try reader.identifier()
            case "family": family = try reader.family()
            case "configuration": configuration = try WidgetConfiguration(from: &reader)
            case "locale": locale = try reader.string()
            case "timeZone": timeZone = try reader.string()
            case "user": user = try reader.identifier()
            case "entries": entries = try Self.canonical(.array, &reader)
            case "policy":
                let start = reader.checkpoint
                _ = try reader.reloadPolicy()
                reader.rewind(to: start)
                policy = try Self.canonical(try reader.peek(), &reader)
            default: try reader.skip()
            }
        }

        private static func canonical(
            _ kind: JSONKind, _ reader: inout JSONReader
        ) throws(JSONError) -> [UInt8] {
            try reader.expect(kind)
            var out: [UInt8] = []
            try reader.canonicalize(into: &out)
            return out
        }
    }
}
