/// An enumeration without associated values that is named in documents and messages, by its cases unless the table has
/// other names.
package protocol NamedValue: CaseIterable, Hashable, Sendable {
    /// Table of the names in both directions.
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

    /// - Parameter others: names that differ from their cases.
    init(_ others: [Value: String] = [:]) {
        names = Dictionary(uniqueKeysWithValues: Value.allCases.map { ($0, others[$0] ?? "\($0)") })
        values = Dictionary(uniqueKeysWithValues: names.map { ($0.value, $0.key) })
    }
}
