package import WidgetModel

/// The entries of a stored timeline by their places in its JSON, found without parsing it: they go out as they are stored.
package struct StoredEntries: Sendable {
    private struct Entry: Sendable {
        var date: Timestamp?
        var place: Range<Int>
    }

    private let json: [UInt8]
    private var entries: [Entry] = []

    /// - Parameter json: an object with `entries`, as it is stored: valid.
    package init(_ json: [UInt8]) {
        self.json = json
        var depth = 0
        // Keys of the root and of an entry.
        var rootKey: ArraySlice<UInt8> = []
        var entryKey: ArraySlice<UInt8> = []
        var entry: Entry?
        var index = 0
        while index < json.count {
            switch json[index] {
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
                if depth == 3, rootKey.elementsEqual("entries".utf8) { entry = Entry(place: index..<index) }
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if depth == 3, var ended = entry {
                    ended.place = ended.place.lowerBound..<(index + 1)
                    entries.append(ended)
                    entry = nil
                }
                depth -= 1
            case UInt8(ascii: "\""):
                let text = Self.string(in: json, at: index)
                index = text.endIndex
                let isKey = json[(index + 1)...].first { $0 > UInt8(ascii: " ") } == UInt8(ascii: ":")
                if isKey, depth == 1 { rootKey = text }
                if isKey, depth == 3 { entryKey = text }
                if !isKey, depth == 3, entryKey.elementsEqual("date".utf8) {
                    entry?.date = Timestamp(rfc3339: String(decoding: text, as: UTF8.self))
                }
            default: break
            }
            index += 1
        }
    }

    /// Bytes between the quotation mark at an index and the closing one.
    private static func string(in json: [UInt8], at index: Int) -> ArraySlice<UInt8> {
        var end = index + 1
        while end < json.count, json[end] != UInt8(ascii: "\"") {
            end += json[end] == UInt8(ascii: "\\") ? 2 : 1
        }
        return json[(index + 1)..<min(end, json.count)]
    }

    /// JSON of the entry that is shown at a time: the last one that is not later; nil before the first.
    package func current(at time: Timestamp) -> ArraySlice<UInt8>? {
        entries.last { $0.date.map { $0 <= time } ?? false }.map { json[$0.place] }
    }
}
