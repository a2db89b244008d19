/// Legal but unwise properties of a timeline, counted per kind (design, section 6, rule 5).
package struct TimelineLints: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// Two entries less than five minutes apart; equal dates are no gap.
    package static let shortGap = TimelineLints(rawValue: 1)
    /// A single entry with `atEnd`, which requests a reload as soon as it is stored.
    package static let singleEntryAtEnd = TimelineLints(rawValue: 2)
    /// A reload that is due at a full hour, as many others: `after` it, or `atEnd` with a last entry at it.
    package static let roundHour = TimelineLints(rawValue: 4)

    /// Several links in an entry of a systemSmall widget, which opens only one.
    package static let severalLinks = TimelineLints(rawValue: 8)

    /// The single lints with their names, in the order in which they are written.
    package static let named: [(name: String, lint: TimelineLints)] = [
        ("shortGap", .shortGap), ("singleEntryAtEnd", .singleEntryAtEnd), ("roundHour", .roundHour),
        ("severalLinks", .severalLinks),
    ]

    package static let shortestGap: Duration = .seconds(300)

    /// - Parameter dates: of the entries, in order.
    package init(policy: ReloadPolicy, dates: some Collection<Timestamp>) {
        var lints: TimelineLints = []
        if zip(dates, dates.dropFirst()).contains(where: { $0 < $1 && $1 - $0 < Self.shortestGap }) {
            lints.insert(.shortGap)
        }
        var reload: Timestamp?
        var last: Timestamp?
        for date in dates { last = date }
        switch policy {
        case .atEnd: if dates.count == 1 { lints.insert(.singleEntryAtEnd) } else { reload = last }
        case .after(let date): reload = date
        case .never: break
        }
        if let reload, reload.microseconds % 3_600_000_000 == 0 { lints.insert(.roundHour) }
        self = lints
    }
}
