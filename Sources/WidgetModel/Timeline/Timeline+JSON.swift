extension Timeline {
    /// Reads `{"entries": […], "policy": …}`, the form in which content is stored.
    package init(stored bytes: [UInt8], in range: Range<Int>? = nil) throws(JSONError) {
        var reader = JSONReader(bytes, in: range)
        try reader.expect(.object)
        let offset = reader.position
        var entries: [TimelineEntry]?
        var policy: ReloadPolicy?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "entries") {
                var read: [TimelineEntry] = []
                var array = try reader.beginArray()
                while try reader.nextElement(&array) { read.append(try TimelineEntry(from: &reader)) }
                entries = read
            } else if reader.matches(key, "policy") {
                policy = try reader.reloadPolicy()
            } else {
                try reader.skip()
            }
        }
        try reader.finish()
        guard let entries else { throw reader.missing("entries", inObjectAt: offset) }
        guard let policy else { throw reader.missing("policy", inObjectAt: offset) }
        guard let timeline = Timeline(entries: entries, policy: policy) else {
            throw reader.failure(.invalidValue, "expected at least one entry", at: offset)
        }
        self = timeline
    }
}

extension TimelineEntry {
    init(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.object)
        let offset = reader.position
        var date: Timestamp?
        var content: JSONValue?
        var relevance: EntryRelevance?
        var url: String?
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "date") {
                date = try reader.timestamp()
            } else if reader.matches(key, "content") {
                content = try reader.value()
            } else if reader.matches(key, "relevance") {
                relevance = try EntryRelevance(from: &reader)
            } else if reader.matches(key, "url") {
                url = try reader.string()
            } else {
                try reader.skip()
            }
        }
        guard let date else { throw reader.missing("date", inObjectAt: offset) }
        guard let content else { throw reader.missing("content", inObjectAt: offset) }
        self.init(date: date, content: content, relevance: relevance, url: url)
    }
}

extension EntryRelevance {
    fileprivate init(from reader: inout JSONReader) throws(JSONError) {
        try reader.expect(.object)
        let offset = reader.position
        var score: Double?
        var duration = 0.0
        var object = try reader.beginObject()
        while let key = try reader.nextKey(&object) {
            if reader.matches(key, "score") {
                score = try reader.double()
            } else if reader.matches(key, "duration") {
                duration = try reader.double()
            } else {
                try reader.skip()
            }
        }
        guard let score else { throw reader.missing("score", inObjectAt: offset) }
        self.init(score: score, duration: duration)
    }
}
