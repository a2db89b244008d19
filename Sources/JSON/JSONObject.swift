/// Members of a JSON object in the order in which they were written, with unique keys.
package struct JSONObject: Hashable, Sendable {
    package struct Member: Sendable {
        package let key: String
        package var value: JSONValue

        package init(key: String, value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    package private(set) var members: [Member]

    package init() {
        members = []
    }

    /// Keeps the last of several members with the same key, at the place of the first.
    package init(_ members: [Member]) {
        self.members = []
        self.members.reserveCapacity(members.count)
        for member in members { self[member.key] = member.value }
    }

    /// Makes an object of members whose keys are known to be unique.
    package init(unique members: [Member]) {
        self.members = members
    }

    package var count: Int { members.count }
    package var isEmpty: Bool { members.isEmpty }
    package var keys: [String] { members.map(\.key) }

    /// The member's value. Setting nil removes the member, and setting a new key appends it.
    package subscript(key: String) -> JSONValue? {
        get { index(of: key).map { members[$0].value } }
        set {
            switch (index(of: key), newValue) {
            case (let index?, let value?): members[index].value = value
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append(Member(key: key, value: value))
            case (nil, nil): break
            }
        }
    }

    private func index(of key: String) -> Int? {
        members.firstIndex { Text.equal($0.key, key) }
    }

    /// Members in the order of the UTF-16 code units of their keys.
    var canonicalMembers: [Member] { members.sorted { $0.key.utf16.lexicographicallyPrecedes($1.key.utf16) } }

    /// Members in byte order of their keys.
    private var sorted: [Member] { members.sorted { Text.precedes($0.key, $1.key) } }

    package static func == (left: JSONObject, right: JSONObject) -> Bool {
        guard left.count == right.count else { return false }
        if same(left.members, right.members) { return true }
        return same(left.sorted, right.sorted)
    }

    private static func same(_ left: [Member], _ right: [Member]) -> Bool {
        zip(left, right).allSatisfy { Text.equal($0.key, $1.key) && $0.value == $1.value }
    }

    package func hash(into hasher: inout Hasher) {
        for member in sorted {
            Text.hash(member.key, into: &hasher)
            hasher.combine(member.value)
        }
    }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
    package init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(elements.map { Member(key: $0.0, value: $0.1) })
    }
}
