/// The fields of an entry's content that do not count as a change, as a tree of reference tokens.
struct VolatileFields: Sendable {
    private indirect enum Node: Sendable {
        case field
        case parent([(token: String, node: Node)])
    }

    private let root: Node?

    init(_ pointers: [JSONPointer]) {
        root = Self.node(pointers.map { $0.tokens[...] })
    }

    var isEmpty: Bool { root == nil }

    /// `content` without the fields; null when all of it is volatile. Of an array, elements are left out too.
    func removed(from content: JSONValue) -> JSONValue {
        guard let root else { return content }
        return Self.removed(root, from: content) ?? .null
    }

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
        return .parent(children.compactMap { child in node(child.paths).map { (child.token, $0) } })
    }

    /// Nil when the value itself is left out.
    private static func removed(_ node: Node, from value: JSONValue) -> JSONValue? {
        guard case .parent(let children) = node else { return nil }
        switch value {
        case .object(var object):
            for child in children {
                guard let member = object[child.token] else { continue }
                object[child.token] = removed(child.node, from: member)
            }
            return .object(object)
        case .array(let elements):
            var kept: [JSONValue] = []
            for (index, element) in elements.enumerated() {
                guard let child = children.first(where: { $0.token == String(index) }) else {
                    kept.append(element)
                    continue
                }
                if let rest = removed(child.node, from: element) { kept.append(rest) }
            }
            return .array(kept)
        case .null, .bool, .number, .string:
            return value
        }
    }
}
