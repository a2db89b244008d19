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
