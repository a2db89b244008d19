/// An enumeration whose values have names in documents and messages.
package protocol NamedValue: CaseIterable, Sendable {
    var name: String { get }
}

extension NamedValue {
    package init?(name: String) {
        guard let value = Self.allCases.first(where: { $0.name == name }) else { return nil }
        self = value
    }
}
