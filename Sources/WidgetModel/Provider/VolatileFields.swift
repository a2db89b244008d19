/// The fields of an entry's content that do not count as a change, as a tree of reference tokens.
package struct VolatileFields: Sendable {
    private indirect enum Node: Sendable {
        case field
        case parent([Child])
    }

    private struct Child: Sendable {
        /// The token as a canonical member name, quotes included.
        let name: [UInt8]
        /// The token as an index of an array.
        let index: Int?
        let node: Node
    }

    private let root: Node?

    /// Of a kind all of whose content counts.
    package static let none = VolatileFields([])

    package init(_ pointers: [JSONPointer]) {
        root = Self.node(pointers.map { $0.tokens[...] })
    }

    var isEmpty: Bool { root == nil }

    private static func node(_ paths: [ArraySlice<String>]) -> Node? {
        guard !paths.isEmpty else { return nil }
        guard paths.allSatisfy({ !$0.isEmpty }) else { return .field }
        var children: [(token: String, paths: [ArraySlice<String>])] = []
        for path in paths {
            guard let token = path.first else { continue }
            if let index = children.firstIndex(where: { Text.equal($0.token, token) }) {
                children[index].paths.append(path.dropFirst())
            } else {
                children.append((token, [path.dropFirst()]))
            }
        }
        return .parent(
            children.compactMap { child in
                guard let node = node(child.paths) else { return nil }
                var name: [UInt8] = []
                JSONWriter.append(child.token, to: &name)
                let index = Int(child.token).flatMap { Text.equal(String($0), child.token) ? $0 : nil }
                return Child(name: name, index: index, node: node)
            })
    }

    /// Appends canonical content without the fields: `null` when all of it is volatile. Elements of arrays are left out
    /// like members of objects.
    func appendRest(ofContentIn bytes: [UInt8], _ range: Range<Int>, to out: inout [UInt8]) throws(JSONError) {
        var reader = JSONReader(bytes, in: range)
        switch root {
        case .field: out.append(contentsOf: "null".utf8)
        case .parent(let children): try Self.append(without: children, &reader, to: &out)
        case nil: reader.copy(range, to: &out)
        }
    }

    private static func append(
        without children: [Child], _ reader: inout JSONReader, to out: inout [UInt8]
    ) throws(JSONError) {
        switch try reader.peek() {
        case .object:
            out.append(UInt8(ascii: "{"))
            var isFirst = true
            var object = try reader.beginObject()
            while let key = try reader.nextKey(&object) {
                // Keys in canonical form are compared as they are written.
                let name = (key.range.lowerBound - 1)..<(key.range.upperBound + 1)
                let child = child(named: name, in: reader.bytes, of: children)
                if case .field = child?.node {
                    try reader.skip()
                    continue
                }
                if !isFirst { out.append(UInt8(ascii: ",")) }
                isFirst = false
                reader.copy(name, to: &out)
                out.append(UInt8(ascii: ":"))
                try append(child, &reader, to: &out)
            }
            out.append(UInt8(ascii: "}"))
        case .array:
            out.append(UInt8(ascii: "["))
            var isFirst = true
            var array = try reader.beginArray()
            while try reader.nextElement(&array) {
                let child = children.first { $0.index == array.index }
                if case .field = child?.node {
                    try reader.skip()
                    continue
                }
                if !isFirst { out.append(UInt8(ascii: ",")) }
                isFirst = false
                try append(child, &reader, to: &out)
            }
            out.append(UInt8(ascii: "]"))
        case .null, .bool, .number, .string:
            let range = try reader.skip()
            reader.copy(range, to: &out)
        }
    }

    private static func child(named name: Range<Int>, in bytes: [UInt8], of children: [Child]) -> Child? {
        for child in children where child.name.count == name.count && child.name.elementsEqual(bytes[name]) {
            return child
        }
        return nil
    }

    /// Appends the next value, without the fields below it if there are any.
    private static func append(
        _ child: Child?, _ reader: inout JSONReader, to out: inout [UInt8]
    ) throws(JSONError) {
        if case .parent(let children) = child?.node {
            try append(without: children, &reader, to: &out)
        } else {
            let range = try reader.skip()
            reader.copy(range, to: &out)
        }
    }
}
