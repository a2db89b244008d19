import Foundation
import WidgetModel

/// Content follows the device's language, time zone and family, if the kind says so.
enum EnvironmentRules: LintRuleGroup {
    static let locale = LintRule(
        "environment/locale", .note, "Content differs by locale, if the kind varies by it",
        advice: "Translate the content, or leave locale out of variesBy: people then share more timelines.")
    static let timeZone = LintRule(
        "environment/time-zone", .note, "Content differs by time zone, if the kind varies by it",
        advice: "Use the time zone for dates and days, or leave timeZone out of variesBy.")
    static let family = LintRule(
        "environment/family", .note, "Content differs by family, if the kind varies by it",
        advice: "Send larger widgets more content, or leave family out of variesBy.")
    static let midnight = LintRule(
        "environment/midnight", .warning, "Days begin at midnight of the person's time zone",
        advice: "Compute days in the request's timeZone; otherwise widgets change to the next day at the wrong hour.")

    static let rules = [locale, timeZone, family, midnight]

    private static let halfDay = Duration.seconds(43_200)

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let timelines = observation.timelines
        func same(_ property: KeyPath<TimelineIdentity, String?>) -> [String] {
            let others = [\TimelineIdentity.locale, \.timeZone, \.family?.name, \.user].filter { $0 != property }
            // Groups of timelines that differ only by the property.
            let groups = Dictionary(grouping: timelines.filter { $0.subject.identity[keyPath: property] != nil }) {
                timeline in others.map { timeline.subject.identity[keyPath: $0] }
            }
            let comparable = groups.values.filter { Set($0.map { $0.subject.identity[keyPath: property] }).count > 1 }
            guard !comparable.isEmpty,
                comparable.allSatisfy({ group in
                    group.allSatisfy { $0.entries.map(\.rest) == group[0].entries.map(\.rest) }
                })
            else { return [] }
            let values = Set(comparable.flatMap { $0.compactMap { $0.subject.identity[keyPath: property] } }).sorted()
            return ["the content is the same for \(values.joined(separator: ", "))"]
        }
        return observation.findings(at: [
            midnight: timelines.compactMap(foreignMidnight), locale: same(\.locale), timeZone: same(\.timeZone),
            family: same(\.family?.name),
        ])
    }

    /// An entry that begins at midnight in UTC, which is another time of the day for the person.
    ///
    /// Entries less than half a day from a neighbour, such as those of an hourly forecast, do not begin a day.
    private static func foreignMidnight(_ timeline: LintTimeline) -> String? {
        guard let zone = timeline.timeZone else { return nil }
        let dates = timeline.entries.map(\.date)
        let days = dates.indices.dropFirst().filter { index in
            dates[index] - dates[index - 1] >= halfDay
                && (index + 1 == dates.count || dates[index + 1] - dates[index] >= halfDay)
        }.map { dates[$0] }
        guard let date = days.first(where: { $0.isMidnight(in: .gmt) && !$0.isMidnight(in: zone) }) else { return nil }
        let clock = (date + .seconds(date.offset(in: zone))).rfc3339.dropFirst(11).prefix(5)
        return "\(timeline.subject.name): the entry of \(date.rfc3339) begins at \(clock) in \(zone.identifier)"
    }
}

extension LintTimeline {
    /// Time zone of the request; nil for a kind that does not vary by it.
    var timeZone: TimeZone? { subject.identity.timeZone.flatMap { TimeZone(identifier: $0) } }
}

extension Timestamp {
    fileprivate func offset(in zone: TimeZone) -> Int {
        zone.secondsFromGMT(for: Date(timeIntervalSince1970: Double(microseconds) / 1_000_000))
    }

    func isMidnight(in zone: TimeZone) -> Bool {
        (self + .seconds(offset(in: zone))).microseconds.isMultiple(of: 86_400_000_000)
    }
}
