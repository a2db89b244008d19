extension JSONValue {
    /// Reads one document.
    ///
    /// - Parameters:
    ///   - range: where it lies in `bytes`; all of them when nil.
    ///   - maximumDepth: how deep arrays and objects may nest.
    ///   - checksNumbers: false for a document whose numbers are not used.
    package static func parse(
        _ bytes: [UInt8], in range: Range<Int>? = nil, maximumDepth: Int = JSONReader.defaultMaximumDepth,
        checksNumbers: Bool = true
    ) throws(JSONError) -> JSONValue {
        var reader = JSONReader(bytes, in: range, maximumDepth: maximumDepth, checksNumbers: checksNumbers)
        let value = try reader.value()
        try reader.finish()
        return value
    }

    /// Reads one document from a text.
    package static func parse(_ text: String) throws(JSONError) -> JSONValue {
        try parse(Array(text.utf8))
    }
}

extension JSONReader {
    /// Reads the next value as a tree.
    package mutating func value() throws(JSONError) -> JSONValue {
        switch try peek() {
        case .null:
            try literal("null")
            return .null
        case .bool:
            return .bool(try bool())
        case .number:
            return .number(try number())
        case .string:
            return .string(try string())
        case .array:
            var elements: [JSONValue] = []
            var array = try beginArray()
            while try nextElement(&array) { elements.append(try value()) }
            return .array(elements)
        case .object:
            var members: [JSONObject.Member] = []
            var object = try beginObject()
            while let key = try nextKey(&object) {
                members.append(JSONObject.Member(key: text(of: key), value: try value()))
            }
            return .object(JSONObject(unique: members))
        }
    }
}
