// SPDX-License-Identifier: Apache-2.0

/// An enumeration without associated values that is named in documents and messages, by its cases unless the table has
/// other names.
package protocol NamedValue: CaseIterable, Hashable, Sendable {
    /// The names of all values; made by `nameTable`.
    static var names: [Self: String] { get }
}

extension NamedValue {
    package var name: String { Self.names[self] ?? "" }

    package init?(name: String) {
        guard let found = Self.names.first(where: { $0.value == name }) else { return nil }
        self = found.key
    }

    /// - Parameter others: names that differ from their cases.
    static func nameTable(_ others: [Self: String] = [:]) -> [Self: String] {
        let names = Dictionary(uniqueKeysWithValues: allCases.map { ($0, others[$0] ?? "\($0)") })
        precondition(Set(names.values).count == names.count, "two values have one name")
        return names
    }
}

/// Size and place of a widget. The raw values are stored: never renumber them.
package enum WidgetFamily: Int16, NamedValue {
    case systemSmall = 0
    case systemMedium = 1
    case systemLarge = 2
    case systemExtraLarge = 3
    case accessoryCircular = 4
    case accessoryRectangular = 5
    case accessoryInline = 6

    package static let names = nameTable()

    /// Whether a widget is one place to tap. Larger ones may have several links.
    package var hasOneLink: Bool {
        switch self {
        case .systemSmall, .accessoryCircular, .accessoryRectangular, .accessoryInline: true
        case .systemMedium, .systemLarge, .systemExtraLarge: false
        }
    }
}
