// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Earliest time of a reload without a request.
package enum ReloadPolicy: Hashable, Sendable {
    /// When the last entry's date is reached.
    case atEnd
    /// At this date, whatever the dates of the entries.
    case after(Timestamp)
    /// Only on an explicit request.
    case never

    /// Earliest time of the next reload by policy; nil for `never`.
    package func earliestReload(lastEntry: Timestamp) -> Timestamp? {
        switch self {
        case .atEnd: lastEntry
        case .after(let date): date
        case .never: nil
        }
    }
}

extension ReloadPolicy {
    /// `"atEnd"`, `"never"` or `{"after": date}`.
    package var json: JSONValue {
        switch self {
        case .atEnd: "atEnd"
        case .never: "never"
        case .after(let date): ["after": .string(date.rfc3339)]
        }
    }
}

extension ReloadPolicy {
    /// Appends the policy's JSON.
    func append(to out: inout [UInt8]) {
        switch self {
        case .atEnd: out.append("\"atEnd\"")
        case .never: out.append("\"never\"")
        case .after(let date):
            out.append("{\"after\":\"")
            date.appendRFC3339(to: &out)
            out.append("\"}")
        }
    }
}

extension JSONReader {
    /// `"atEnd"`, `"never"` or `{"after": date}`.
    package mutating func reloadPolicy() throws(JSONError) -> ReloadPolicy {
        let kind = try peek()
        let offset = position
        switch kind {
        case .string:
            let token = try stringToken()
            switch shortText(of: token) {
            case "atEnd": return .atEnd
            case "never": return .never
            default:
                let found = Text.quoted(text(of: token))
                throw failure(
                    .invalidValue, #"expected "atEnd", "never" or {"after": date}, found \#(found)"#, at: offset)
            }
        case .object:
            var date: Timestamp?
            try beginObject()
            while let key = try nextKey() {
                switch key {
                case "after": date = try timestamp()
                default: try skip()
                }
            }
            guard let date else { throw missing("after", inObjectAt: offset) }
            return .after(date)
        case .null, .bool, .number, .array:
            throw wrongType(expected: "a string or an object", found: kind)
        }
    }
}

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

    /// Several links in an entry of a family that opens only one (``WidgetFamily/hasOneLink``).
    package static let severalLinks = TimelineLints(rawValue: 8)

    /// In microseconds.
    private static let shortestGap: Int64 = 300_000_000

    /// - Parameter dates: of the entries, in order.
    init(policy: ReloadPolicy, dates: some BidirectionalCollection<Timestamp>) {
        var lints: TimelineLints = []
        var earlier: Timestamp?
        for date in dates {
            if let earlier, earlier < date {
                let (gap, overflow) = date.microseconds.subtractingReportingOverflow(earlier.microseconds)
                if !overflow, gap < Self.shortestGap { lints.insert(.shortGap) }
            }
            earlier = date
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
