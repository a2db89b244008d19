/// Legal but unwise properties of a timeline, counted per kind (DESIGN.md, “Rules of reloads”).
package struct TimelineLints: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Two entries less than five minutes apart; equal dates are no gap.
    package static let shortGap = TimelineLints(rawValue: 1)
    /// A single entry with `atEnd`, which requests a reload as soon as it is stored.
    package static let singleEntryAtEnd = TimelineLints(rawValue: 2)
    /// A reload at a full hour, when many other timelines are due: `after` it, or `atEnd` with the last entry at it.
    package static let roundHour = TimelineLints(rawValue: 4)

    /// Several links in an entry of a systemSmall widget, which opens only one.
    package static let severalLinks = TimelineLints(rawValue: 8)

    private static let shortestGap: Duration = .seconds(300)

    /// - Parameter dates: of the entries, in order.
    package init(policy: ReloadPolicy, dates: some BidirectionalCollection<Timestamp>) {
        var lints: TimelineLints = []
        if zip(dates, dates.dropFirst()).contains(where: { $0 < $1 && $1 - $0 < Self.shortestGap }) {
            lints.insert(.shortGap)
        }
        switch policy {
        case .atEnd where dates.count == 1: lints.insert(.singleEntryAtEnd)
        case .atEnd: if dates.last.map(Self.isFullHour) == true { lints.insert(.roundHour) }
        case .after(let date): if Self.isFullHour(date) { lints.insert(.roundHour) }
        case .never: break
        }
        self = lints
    }

    private static func isFullHour(_ date: Timestamp) -> Bool { date.microseconds % 3_600_000_000 == 0 }
}
