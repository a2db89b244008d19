import JSON

/// Access to the entries of a stored timeline in place, so that they are sent as they are stored.
package enum StoredEntries {
    /// The bytes of the entry that is shown at a time, the last one with an earlier or equal date; nil before the
    /// first.
    ///
    /// - Parameter json: a stored timeline: an object with `entries` in the order of their dates.
    package static func current(in json: [UInt8], at time: Timestamp) -> ArraySlice<UInt8>? {
        (try? place(in: json, at: time)).map { json[$0] }
    }

    /// Link of an entry; nil when it has none.
    package static func url(of entry: ArraySlice<UInt8>) -> String? {
        func read() throws(JSONError) -> String? {
            var reader = JSONReader(Array(entry))
            var url: String?
            try reader.beginObject()
            while let key = try reader.nextKey() {
                switch key {
                case "url": url = try reader.string()
                default: try reader.skip()
                }
            }
            return url
        }
        return (try? read()) ?? nil
    }

    /// Passes a reader at the beginning of each entry, in order, to a closure that reads the entry.
    ///
    /// - Parameter json: a stored timeline.
    static func forEach(
        in json: [UInt8], _ read: (inout JSONReader) throws(JSONError) -> Void
    ) throws(JSONError) {
        var reader = JSONReader(json)
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "entries":
                try reader.beginArray()
                while try reader.nextElement() { try read(&reader) }
            default: try reader.skip()
            }
        }
    }

    private static func place(in json: [UInt8], at time: Timestamp) throws(JSONError) -> Range<Int>? {
        var place: Range<Int>?
        try forEach(in: json) { (reader: inout JSONReader) throws(JSONError) in
            try reader.expect(.object)
            let start = reader.position
            if let date = try date(of: &reader), date <= time { place = start..<reader.position }
        }
        return place
    }

    /// Reads an entry and returns its date.
    private static func date(of reader: inout JSONReader) throws(JSONError) -> Timestamp? {
        var date: Timestamp?
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "date": date = try reader.timestamp()
            default: try reader.skip()
            }
        }
        return date
    }
}
