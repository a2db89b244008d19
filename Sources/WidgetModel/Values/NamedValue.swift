/// An enumeration without associated values whose names in documents and messages are those of its cases, unless it says
/// otherwise.
package protocol NamedValue: CaseIterable, Hashable, Sendable {
    /// Both directions of the names, made once: `NameTable()`.
    static var names: NameTable<Self> { get }
}

extension NamedValue {
    package var name: String { Self.names.names[self] ?? "" }

    package init?(name: String) {
        guard let value = Self.names.values[name] else { return nil }
        self = value
    }
}

/// The names of an enumeration's values.
package struct NameTable<Value: NamedValue>: Sendable {
    fileprivate let names: [Value: String]
    fileprivate let values: [String: Value]

    /// - Parameter others: names that are not those of the cases.
    init(_ others: [Value: String] = [:]) {
        names = Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, others[$0] ?? "\($0)") })
        values = Dictionary(uniqueKeysWithValues: names.map { ($0.value, $0.key) })
    }
}
