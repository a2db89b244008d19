/// Whether the timelines of a kind belong to a user. The raw values are stored: never renumber them.
package enum KindSharing: Int16, NamedValue {
    case perUser = 0
    case shared = 1

    package static let names = NameTable<KindSharing>()
}

/// Properties by which the timelines of a kind differ, besides app, kind, configuration and, per user, the user.
package struct KindVariation: OptionSet, Hashable, Sendable {
    package let rawValue: Int16

    package init(rawValue: Int16) {
        self.rawValue = rawValue
    }

    package static let family = KindVariation(rawValue: 1)
    package static let locale = KindVariation(rawValue: 2)
    package static let timeZone = KindVariation(rawValue: 4)
    package static let all: KindVariation = [.family, .locale, .timeZone]

    /// The variations with their names, in the order in which they are written.
    package static let named: [(name: String, variation: KindVariation)] = [
        ("family", .family), ("locale", .locale), ("timeZone", .timeZone),
    ]

    package var names: [String] { Self.named.filter { contains($0.variation) }.map(\.name) }

    package init?(name: String) {
        guard let found = Self.named.first(where: { $0.name == name }) else { return nil }
        self = found.variation
    }
}

extension WidgetEnvironment {
    /// The first reported value that timelines with this variation need and that cannot be used.
    func problem(for variation: KindVariation) -> ModelError? {
        problems.first { variation.contains($0.pointer == "/locale" ? .locale : .timeZone) }
    }
}
