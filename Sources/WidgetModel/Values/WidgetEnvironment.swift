import JSON

/// Device properties for the provider.
package struct WidgetEnvironment: Sendable {
    /// BCP 47 language tag such as `en-US` (shape and length are checked, not the registry).
    package let locale: String
    /// IANA time zone name such as `Europe/Berlin`.
    package let timeZone: String
    /// Reported values that cannot be used, with the pointers `/locale` and `/timeZone`. Neutral values stand for them.
    package let problems: [ModelError]

    /// Longest locale or time zone, in bytes.
    package static let maximumBytes = 64

    /// A stored environment, which is not checked again.
    package init(storedLocale locale: String, timeZone: String) {
        (self.locale, self.timeZone, problems) = (locale, timeZone, [])
    }

    /// The environment that a device reports, with neutral values for those that cannot be used: a kind that does not
    /// vary by them accepts its widgets all the same.
    ///
    /// - Parameters:
    ///   - locale: language tag, or an identifier of Foundation's `Locale` such as `en_US@calendar=japanese`.
    ///   - timeZone: name of a zone, or an offset such as `GMT+0530` or `+05:30`.
    package init(reportedLocale locale: String, timeZone: String) {
        var problems: [ModelError] = []
        let (tag, zone) = (LanguageTag.make(from: locale), TimeZoneNames.name(reportedAs: timeZone))
        if tag == nil {
            problems.append(
                ModelError(
                    message: "expected a BCP 47 language tag such as en-US, found \(Text.quoted(locale))",
                    pointer: "/locale"))
        }
        if zone == nil {
            problems.append(
                ModelError(
                    message: "expected an IANA time zone name such as Europe/Berlin, found \(Text.quoted(timeZone))",
                    pointer: "/timeZone"))
        }
        (self.locale, self.timeZone, self.problems) = (tag ?? "und", zone ?? "UTC", problems)
    }

    /// The environment with the values of an earlier one in place of reported values that cannot be used.
    package func completed(from earlier: WidgetEnvironment) -> WidgetEnvironment {
        func isUsable(_ pointer: String) -> Bool { !problems.contains { $0.pointer == pointer } }
        return WidgetEnvironment(
            storedLocale: isUsable("/locale") ? locale : earlier.locale,
            timeZone: isUsable("/timeZone") ? timeZone : earlier.timeZone)
    }

    /// - Parameters: as in ``init(reportedLocale:timeZone:)``.
    /// - Throws: `ModelError` with pointer `/locale` or `/timeZone`.
    package init(locale: String, timeZone: String) throws(ModelError) {
        self.init(reportedLocale: locale, timeZone: timeZone)
        if let problem = problems.first { throw problem }
    }
}

extension WidgetEnvironment: Hashable {
    package static func == (left: WidgetEnvironment, right: WidgetEnvironment) -> Bool {
        left.locale == right.locale && left.timeZone == right.timeZone
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(locale)
        hasher.combine(timeZone)
    }
}
