import Foundation
import WidgetModel

/// Entries and policies are spread over time.
enum ScheduleRules: LintRuleGroup {
    static let shortGap = LintRule(
        "schedule/short-gap", .note, "Entries are at least five minutes apart",
        advice: "Devices may skip entries that are closer; show running time with the widget's own timer.")
    static let singleAtEnd = LintRule(
        "schedule/single-at-end", .warning, "A timeline with atEnd has several entries",
        advice: "A single entry is at its end at once: use after, or never.")
    static let roundHour = LintRule(
        "schedule/round-hour", .warning, "Reloads are not due at full hours",
        advice: "Add some minutes that differ between people: at a full hour everyone's timelines are due.")
    static let sameTime = LintRule(
        "schedule/same-time", .warning, "Reloads of different people are due at different times",
        advice: "Add a number of seconds that follows from the person's id.")
    static let past = LintRule(
        "schedule/past", .warning, "Reloads are due in the future",
        advice: "A policy in the past requests a reload at once, as often as the budget allows.")
    static let noneYet = LintRule(
        "schedule/none-yet", .warning, "The first entry is shown at once",
        advice: "Begin with an entry for now: until the first entry widgets show their placeholder.")

    static let rules = [shortGap, singleAtEnd, roundHour, sameTime, past, noneYet]

    /// Fewest people whose equal times are reported.
    private static let sharedCount = 3

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let timelines = observation.timelines
        func places(_ lint: TimelineLints, _ text: (LintTimeline) -> String) -> [String] {
            timelines.filter { $0.parsed.lints.contains(lint) }.map { "\($0.subject.name): \(text($0))" }
        }
        let past = timelines.filter { timeline in
            // A single entry with atEnd has a rule of its own.
            guard case .after(let date) = timeline.parsed.policy else { return false }
            return date <= observation.began
        }
        let noneYet = timelines.filter { $0.parsed.firstEntryDate > observation.began + .seconds(60) }
        return observation.findings(at: [
            shortGap: places(.shortGap, shortest),
            singleAtEnd: places(.singleEntryAtEnd) { "one entry at \($0.parsed.firstEntryDate)" },
            roundHour: timelines.filter(isDueAtRoundHour).map(reload),
            sameTime: sharedReloads(in: observation),
            self.past: past.map { "\($0.subject.name): after \($0.reload?.rfc3339 ?? "")" },
            self.noneYet: noneYet.map { "\($0.subject.name): the first entry is at \($0.parsed.firstEntryDate)" },
        ])
    }

    static func skipped(in observation: LintObservation) -> [LintSkip] {
        guard observation.kind.definition.sharing == .perUser,
            Set(observation.timelines.map(\.subject.user)).count < sharedCount
        else { return [] }
        let reason = "fewer than three people have timelines; give more with --user"
        return [LintSkip(rule: sameTime, kind: observation.kind.name, reason: reason)]
    }

    /// Whether the reload is due at a full hour in UTC, or at midnight in the time zone of the request.
    private static func isDueAtRoundHour(_ timeline: LintTimeline) -> Bool {
        guard !timeline.parsed.lints.contains(.roundHour) else { return true }
        guard timeline.hasSchedule, let reload = timeline.reload, let zone = timeline.timeZone else { return false }
        return reload.isMidnight(in: zone)
    }

    private static func reload(_ timeline: LintTimeline) -> String {
        "\(timeline.subject.name): \(timeline.policyName) \(timeline.reload?.rfc3339 ?? "")"
    }

    private static func shortest(_ timeline: LintTimeline) -> String {
        let gaps = zip(timeline.entries, timeline.entries.dropFirst()).map { $1.date - $0.date }
        let shortest = gaps.filter { $0 > .zero }.min() ?? .zero
        return "entries \(shortest.words) apart"
    }

    /// Times at which the timelines of at least three people are due, in every round.
    private static func sharedReloads(in observation: LintObservation) -> [String] {
        let rounds = observation.rounds.map { round in
            Set(
                Dictionary(grouping: LintObservation.timelines(of: round).filter(\.hasSchedule)) { $0.reload }
                    .filter { Set($0.value.map(\.subject.user)).count >= sharedCount }.compactMap(\.key))
        }
        guard rounds.count >= 2, observation.kind.definition.sharing == .perUser else { return [] }
        return rounds.dropFirst().reduce(rounds[0]) { $0.intersection($1) }.sorted()
            .map { "everyone's timeline is due at \($0.rfc3339)" }
    }
}

extension LintTimeline {
    /// Whether the provider chose the time of the reload. A single entry with `atEnd` requests one at once instead.
    fileprivate var hasSchedule: Bool { reload != nil && !parsed.lints.contains(.singleEntryAtEnd) }

    fileprivate var policyName: String { if case .atEnd = parsed.policy { "at the end," } else { "after" } }
}

/// Content is far from its limits, and each entry changes something.
enum ContentRules: LintRuleGroup {
    static let large = LintRule(
        "content/large", .warning, "Timelines use less than half of the allowed size",
        advice: "Leave out what widgets do not show, and refer to images by their URLs. Larger timelines are refused.")
    static let repeated = LintRule(
        "content/repeated", .warning, "Entries differ from the ones before them",
        advice: "Send an entry only where something changes: an entry is shown until the next one.")

    static let rules = [large, repeated]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let limits = ProviderLimits()
        let large = observation.timelines.compactMap { timeline -> String? in
            let (bytes, count) = (timeline.parsed.content.count, timeline.parsed.entryCount)
            guard bytes > limits.maximumContentBytes / 2 || count > limits.maximumEntries / 2 else { return nil }
            return """
                \(timeline.subject.name): \(bytes) of \(limits.maximumContentBytes) bytes, \(count) of \
                \(limits.maximumEntries) entries
                """
        }
        let repeated = observation.timelines.compactMap { timeline -> String? in
            let pairs = zip(timeline.entries, timeline.entries.dropFirst())
            let count = pairs.count { $0.rest == $1.rest }
            // A few repetitions may be chance.
            guard count >= 2, count * 2 >= timeline.entries.count - 1 else { return nil }
            return "\(timeline.subject.name): \(count) of \(timeline.entries.count) entries repeat the one before"
        }
        return observation.findings(at: [self.large: large, self.repeated: repeated])
    }
}

/// Relevance distinguishes times that matter from those that do not.
enum RelevanceRules: LintRuleGroup {
    static let constant = LintRule(
        "relevance/constant", .warning, "Relevance changes within a timeline",
        advice: "Give a score above 0 only when the widget matters, or no relevance: a constant says nothing.")
    static let never = LintRule(
        "relevance/never", .warning, "Some scores are above 0",
        advice: "At 0 and below a widget is never rotated to; leave relevance out if that is meant.")

    static let rules = [constant, never]

    /// Fewest scores of all timelines that are judged.
    private static let sample = 5
    /// Fewest scores of one timeline that are judged.
    private static let timelineSample = 3

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let scores = observation.timelines.flatMap { $0.entries.compactMap(\.score) }
        if scores.count >= sample, scores.allSatisfy({ $0 <= 0 }) {
            return observation.findings(at: [never: ["all \(scores.count) scores are 0 or below"]])
        }
        return observation.findings(at: [constant: observation.timelines.compactMap(constantScore)])
    }

    /// A score above 0 that holds from the first entry until both the reload and the last entry.
    private static func constantScore(_ timeline: LintTimeline) -> String? {
        let start = timeline.parsed.firstEntryDate
        let end = max(timeline.reload ?? .distantFuture, timeline.parsed.lastEntryDate)
        guard start < end, let curve = try? RelevanceCurve(timeline: timeline.parsed.content),
            curve.points.count >= timelineSample
        else { return nil }
        let steps = curve.steps(in: start..<end)
        guard steps.count == 1, let only = steps.first, only.from == start, only.score > 0 else { return nil }
        return "\(timeline.subject.name): the score is always \(JSONNumber(only.score)?.text ?? "")"
    }
}

/// Taps open something of the app.
enum LinkRules: LintRuleGroup {
    static let none = LintRule(
        "links/none", .note, "Entries or the kind have a link",
        advice: "Set widgetURL in the manifest or url in the entries: a tap opens the app's start page otherwise.")
    static let several = LintRule(
        "links/several", .warning, "Small widgets have one link",
        advice: "Leave links out for systemSmall, which has one place to tap, or use url.")
    static let relative = LintRule(
        "links/relative", .warning, "Links are absolute URLs",
        advice: "Begin with a scheme, such as bank:// or https://.")
    static let unsafe = LintRule(
        "links/unsafe", .error, "Links run no scripts",
        advice:
            "Use the app's own scheme or https: javascript and data URLs run code where content is shown in browsers.")

    static let rules = [none, several, relative, unsafe]

    private static let unsafeSchemes = ["javascript:", "data:", "vbscript:"]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let timelines = observation.timelines
        let urls = timelines.flatMap { timeline in
            timeline.entries.flatMap { [$0.url].compactMap(\.self) + $0.links }.map { (timeline.subject.name, $0) }
        }
        func places(_ isWrong: (String) -> Bool) -> [String] {
            urls.filter { isWrong($0.1) }.map { "\($0.0): \(Text.quoted($0.1))" }
        }
        func isUnsafe(_ url: String) -> Bool {
            unsafeSchemes.contains { url.lowercased().drop { $0.isWhitespace }.hasPrefix($0) }
        }
        let hasNone = urls.isEmpty && !timelines.isEmpty && observation.kind.definition.widgetURL == nil
        return observation.findings(at: [
            unsafe: places(isUnsafe),
            relative: places { !isUnsafe($0) && !IntentParameter.hasScheme($0) },
            several: timelines.filter { $0.parsed.lints.contains(.severalLinks) }.map {
                "\($0.subject.name): an entry with several links"
            },
            none: hasNone ? ["no entry has a url, and the kind has no widgetURL"] : [],
        ])
    }
}

/// Content is complete in light and in dark surroundings.
enum AppearanceRules: LintRuleGroup {
    static let missing = LintRule(
        "appearance/missing", .warning, "Content with variants has a light and a dark one",
        advice: "Send both, or content without variants.")
    static let mixed = LintRule(
        "appearance/mixed", .warning, "All entries have variants, or none",
        advice: "Send light and dark variants in every entry of a timeline.")
    static let members = LintRule(
        "appearance/members", .note, "Light and dark variants have the same members",
        advice: "Add the missing members, unless one of the variants shows less on purpose.")

    static let rules = [missing, mixed, members]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        var incomplete: [String] = []
        var mixed: [String] = []
        var different: [String] = []
        for timeline in observation.timelines {
            let all = timeline.entries.map { ContentVariants($0.content) }
            let named = all.filter(\.areNamed)
            guard !named.isEmpty else { continue }
            if named.count < all.count {
                mixed.append("\(timeline.subject.name): \(named.count) of \(all.count) entries have variants")
            }
            if let one = named.first(where: { $0.light == nil || $0.dark == nil }) {
                incomplete.append("\(timeline.subject.name): no \(one.light == nil ? "light" : "dark") variant")
            } else if let names = named.lazy.compactMap(unequalMembers).first {
                different.append("\(timeline.subject.name): \(names) only in one variant")
            }
        }
        return observation.findings(at: [missing: incomplete, self.mixed: mixed, members: different])
    }

    private static func unequalMembers(_ variants: ContentVariants) -> String? {
        guard let light = variants.light?.objectValue, let dark = variants.dark?.objectValue else { return nil }
        let names = Set(light.keys).symmetricDifference(dark.keys).sorted()
        return names.isEmpty ? nil : names.prefix(3).map { Text.quoted($0) }.joined(separator: ", ")
    }
}

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
