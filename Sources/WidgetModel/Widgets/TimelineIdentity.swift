// SPDX-License-Identifier: Apache-2.0

import JSON

/// Identity of a timeline: all values that its content may depend on.
///
/// Widgets with the same identity show the same timeline, which is fetched, stored and published once.
package struct TimelineIdentity: Hashable, Sendable {
    package let app: String
    package let kind: String
    /// Nil when the kind does not vary by it.
    package let family: WidgetFamily?
    package let configuration: WidgetConfiguration
    /// Nil when the kind does not vary by it.
    package let locale: String?
    /// Nil when the kind does not vary by it.
    package let timeZone: String?
    /// Nil when the kind is shared.
    package let user: String?

    /// Leaves out the values that the kind does not vary by, and the user of a shared kind.
    package init(
        app: String, kind: String, sharing: KindSharing, variesBy variation: KindVariation, family: WidgetFamily,
        configuration: WidgetConfiguration, environment: WidgetEnvironment, user: String
    ) {
        self.app = app
        self.kind = kind
        self.family = variation.contains(.family) ? family : nil
        self.configuration = configuration
        locale = variation.contains(.locale) ? environment.locale : nil
        timeZone = variation.contains(.timeZone) ? environment.timeZone : nil
        self.user = sharing == .perUser ? user : nil
    }

    /// A stored identity, without changes.
    package init(
        app: String, kind: String, family: WidgetFamily?, configuration: WidgetConfiguration, locale: String?,
        timeZone: String?, user: String?
    ) {
        self.app = app
        self.kind = kind
        self.family = family
        self.configuration = configuration
        self.locale = locale
        self.timeZone = timeZone
        self.user = user
    }

    /// Hash of a version, the family's number, and the other components.
    ///
    /// An absent component is a byte 0. Any other is its number of UTF-8 bytes and 1, seven bits a byte from the
    /// lowest, with the high bit for more (LEB128), and its UTF-8. The form is short, since the hash takes as long as
    /// it. It must never change under the same version, since ids are stored.
    package var id: TimelineID {
        var form: [UInt8] = []
        form.reserveCapacity(160 + configuration.canonical.utf8.count)
        form.append(Self.formVersion)
        form.append(family.map { UInt8(truncatingIfNeeded: $0.rawValue &+ 1) } ?? 0)
        Self.append(app, to: &form)
        Self.append(kind, to: &form)
        Self.append(configuration.canonical, to: &form)
        Self.append(locale, to: &form)
        Self.append(timeZone, to: &form)
        Self.append(user, to: &form)
        return TimelineID(hashOf: form)
    }

    private static let formVersion: UInt8 = 1

    private static func append(_ component: String?, to form: inout [UInt8]) {
        guard let component else {
            form.append(0)
            return
        }
        var count = UInt(component.utf8.count) + 1
        while count >= 0x80 {
            form.append(UInt8(truncatingIfNeeded: count) | 0x80)
            count >>= 7
        }
        form.append(UInt8(truncatingIfNeeded: count))
        form.append(component)
    }

    package static func == (left: TimelineIdentity, right: TimelineIdentity) -> Bool { left.id == right.id }

    package func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

/// Whether the timelines of a kind belong to a user. The raw values are stored: never renumber them.
package enum KindSharing: Int16, NamedValue {
    case perUser = 0
    case shared = 1

    package static let names = nameTable()
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
    /// The reported values that timelines with this variation need and that cannot be used.
    func problems(for variation: KindVariation) -> [ModelError] {
        problems.filter { variation.contains($0.pointer == "/locale" ? .locale : .timeZone) }
    }
}
