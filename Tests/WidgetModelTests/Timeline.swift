// SPDX-License-Identifier: Apache-2.0

import JSON

@testable import WidgetModel

/// A stored timeline in the form that the tests compare.
struct Timeline {
    struct Entry: Equatable {
        let date: Timestamp
        let content: JSONValue
        let relevance: EntryRelevance?
        let url: String?

        init(_ json: JSONValue) throws {
            guard let date = json["date"]?.stringValue.flatMap(Timestamp.init(rfc3339:)), let content = json["content"]
            else { throw ModelError(message: "\(json.canonical)") }
            self.date = date
            self.content = content
            relevance = json["relevance"].map {
                EntryRelevance(
                    score: $0["score"]?.numberValue?.double, duration: $0["duration"]?.numberValue?.double ?? 0)
            }
            url = json["url"]?.stringValue
        }
    }

    let json: [UInt8]
    let entries: [Entry]
    let policy: ReloadPolicy

    init(stored json: [UInt8]) throws {
        self.json = json
        let tree = try JSONValue.parse(json)
        entries = try (tree["entries"]?.arrayValue ?? []).map(Entry.init)
        var reader = JSONReader((tree["policy"] ?? .null).encoded)
        policy = try reader.reloadPolicy()
    }

    var lastEntryDate: Timestamp { entries[entries.count - 1].date }

    func entry(at time: Timestamp) throws -> Entry? {
        try ParsedTimeline.currentEntry(in: json, at: time).map { try Entry(JSONValue.parse(Array($0))) }
    }
}

struct EntryRelevance: Equatable {
    let score: Double?
    var duration = 0.0
}
