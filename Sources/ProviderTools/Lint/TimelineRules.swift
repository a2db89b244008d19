// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import WidgetModel

// Rules about timelines: their schedule, content, relevance, links, appearance and environment.

// MARK: Schedule

extension LintRule {
    static let scheduleShortGap = LintRule(
        "schedule/short-gap", .note, "Entries are at least five minutes apart",
        advice: "Devices may skip entries that are closer; show running time with the widget's own timer."
    ) { observation in
        observation.timelines(with: .shortGap) { timeline in
            let gaps = zip(timeline.entries, timeline.entries.dropFirst()).map { $1.date - $0.date }
            let shortest = gaps.filter { $0 > .zero }.min() ?? .zero
            return "entries \(shortest.words) apart"
        }
    }

    static let scheduleSingleAtEnd = LintRule(
        "schedule/single-at-end", .warning, "A timeline with atEnd has several entries",
        advice: "A single entry is at its end at once: use after, or never."
    ) { observation in
        observation.timelines(with: .singleEntryAtEnd) { "one entry at \($0.parsed.firstEntryDate)" }
    }

    static let scheduleRoundHour = LintRule(
        "schedule/round-hour", .warning, "Reloads are not due at full hours",
        advice: "Add some minutes that differ between people: at a full hour everyone's timelines are due."
    ) { observation in
        observation.timelines.filter(\.isDueAtRoundHour).map {
            "\($0.subject.name): \($0.policyName) \($0.reload?.rfc3339 ?? "")"
        }
    }

    static let scheduleSameTime = LintRule(
        "schedule/same-time", .warning, "Reloads of different people are due at different times",
        advice: "Add a number of seconds that follows from the person's id.",
        skipped: { observation in
            guard observation.kind.definition.sharing == .perUser,
                Set(observation.timelines.map(\.subject.user)).count < sharedCount
            else { return nil }
            return "fewer than three people have timelines; give more with --user"
        },
        places: { observation in
            // Times at which the timelines of at least three people are due, in every round.
            let rounds = observation.rounds.map { round in
                Set(
                    Dictionary(grouping: LintObservation.timelines(of: round).filter(\.hasSchedule)) { $0.reload }
                        .filter { Set($0.value.map(\.subject.user)).count >= sharedCount }.compactMap(\.key))
            }
            guard rounds.count >= 2, observation.kind.definition.sharing == .perUser else { return [] }
            return rounds.dropFirst().reduce(rounds[0]) { $0.intersection($1) }.sorted()
                .map { "everyone's timeline is due at \($0.rfc3339)" }
        })

    /// Fewest people whose equal times are reported.
    private static let sharedCount = 3

    static let schedulePast = LintRule(
        "schedule/past", .warning, "Reloads are due in the future",
        advice: "A time in the past, such as atEnd behind past entries, spends the whole budget at once."
    ) { observation in
        observation.timelines.compactMap { timeline in
            guard timeline.hasSchedule, let reload = timeline.reload, reload <= observation.began else { return nil }
            return "\(timeline.subject.name): \(timeline.policyName) \(reload.rfc3339)"
        }
    }

    static let scheduleNoneYet = LintRule(
        "schedule/none-yet", .warning, "The first entry is shown at once",
        advice: "Begin with an entry for now: until the first entry widgets show their placeholder."
    ) { observation in
        observation.timelines.filter { $0.parsed.firstEntryDate > observation.began + .seconds(60) }
            .map { "\($0.subject.name): the first entry is at \($0.parsed.firstEntryDate)" }
    }
}

extension LintObservation {
    fileprivate func timelines(with lint: TimelineLints, _ text: (LintTimeline) -> String) -> [String] {
        timelines.filter { $0.parsed.lints.contains(lint) }.map { "\($0.subject.name): \(text($0))" }
    }
}

extension LintTimeline {
    /// Whether the provider chose the time of the reload. A single entry with `atEnd` requests one at once instead.
    fileprivate var hasSchedule: Bool { reload != nil && !parsed.lints.contains(.singleEntryAtEnd) }

    fileprivate var policyName: String { if case .atEnd = parsed.policy { "at the end," } else { "after" } }

    /// Whether the reload is due at a full hour in UTC, or at midnight in the time zone of the request.
    fileprivate var isDueAtRoundHour: Bool {
        guard !parsed.lints.contains(.roundHour) else { return true }
        guard hasSchedule, let reload, let timeZone else { return false }
        return reload.isMidnight(in: timeZone)
    }
}

// MARK: Content

extension LintRule {
    static let contentLarge = LintRule(
        "content/large", .warning, "Timelines use less than half of the allowed size",
        advice: "Leave out what widgets do not show, and refer to images by their URLs. Larger timelines are refused."
    ) { observation in
        let (maximumBytes, maximumCount) = (ParsedTimeline.maximumContentBytes, ParsedTimeline.maximumEntries)
        return observation.timelines.compactMap { timeline in
            let (bytes, count) = (timeline.parsed.content.count, timeline.parsed.entryCount)
            guard bytes > maximumBytes / 2 || count > maximumCount / 2 else { return nil }
            return "\(timeline.subject.name): \(bytes) of \(maximumBytes) bytes, \(count) of \(maximumCount) entries"
        }
    }

    static let contentRepeated = LintRule(
        "content/repeated", .warning, "Entries differ from the ones before them",
        advice: "Send an entry only where something changes: an entry is shown until the next one."
    ) { observation in
        observation.timelines.compactMap { timeline in
            let pairs = zip(timeline.entries, timeline.entries.dropFirst())
            let count = pairs.count { $0.rest == $1.rest }
            // A few repetitions may be chance.
            guard count >= 2, count * 2 >= timeline.entries.count - 1 else { return nil }
            return "\(timeline.subject.name): \(count) of \(timeline.entries.count) entries repeat the one before"
        }
    }
}

// MARK: Relevance

extension LintRule {
    static let relevanceConstant = LintRule(
        "relevance/constant", .warning, "Relevance changes within a timeline",
        advice: "Give a score above 0 only when the widget matters, or no relevance: a constant says nothing."
    ) { observation in
        // Scores of 0 and below have a rule of their own.
        relevanceNever.places(observation).isEmpty ? observation.timelines.compactMap(\.constantScore) : []
    }

    static let relevanceNever = LintRule(
        "relevance/never", .warning, "Some scores are above 0",
        advice: "At 0 and below a widget is never rotated to; leave relevance out if that is meant."
    ) { observation in
        let scores = observation.timelines.flatMap {
            $0.entries.compactMap { $0.rest["relevance"]?["score"]?.numberValue?.double }
        }
        // Fewer scores are not judged.
        guard scores.count >= 5, scores.allSatisfy({ $0 <= 0 }) else { return [] }
        return ["all \(scores.count) scores are 0 or below"]
    }
}

extension LintTimeline {
    /// A score above 0 that holds from the first entry until both the reload and the last entry.
    fileprivate var constantScore: String? {
        let start = parsed.firstEntryDate
        let end = max(reload ?? .distantFuture, parsed.lastEntryDate)
        // Fewer scores are not judged.
        guard start < end, let curve = try? RelevanceCurve(timeline: parsed.content), curve.points.count >= 3 else {
            return nil
        }
        let steps = curve.steps(in: start..<end)
        guard steps.count == 1, let only = steps.first, only.from == start, only.score > 0 else { return nil }
        return "\(subject.name): the score is always \(JSONNumber(only.score)?.text ?? "")"
    }
}

// MARK: Links

extension LintRule {
    static let linksNone = LintRule(
        "links/none", .note, "Entries or the kind have a link",
        advice: "Set widgetURL in the manifest or url in the entries: a tap opens the app's start page otherwise."
    ) { observation in
        let hasNone =
            observation.links.isEmpty && !observation.timelines.isEmpty && observation.kind.definition.widgetURL == nil
        return hasNone ? ["no entry has a url, and the kind has no widgetURL"] : []
    }

    static let linksSeveral = LintRule(
        "links/several", .warning, "Small and accessory widgets have one link",
        advice: "Leave links out for systemSmall and accessory families, which have one place to tap, or use url."
    ) { observation in observation.timelines(with: .severalLinks) { _ in "an entry with several links" } }

    static let linksRelative = LintRule(
        "links/relative", .warning, "Links are absolute URLs",
        advice: "Begin with a scheme, such as bank:// or https://."
    ) { observation in
        observation.links.filter { !isUnsafe($0.url) && !IntentParameter.hasScheme($0.url) }.map(\.text)
    }

    static let linksUnsafe = LintRule(
        "links/unsafe", .error, "Links run no scripts",
        advice:
            "Use the app's own scheme or https: javascript and data URLs run code where content is shown in browsers."
    ) { observation in observation.links.filter { isUnsafe($0.url) }.map(\.text) }

    private static func isUnsafe(_ url: String) -> Bool {
        IntentParameter.unsafeScheme(of: String(url.drop { $0.isWhitespace })) != nil
    }
}

extension LintObservation {
    /// Links of all entries, with the widget and the link as evidence.
    fileprivate var links: [(url: String, text: String)] {
        timelines.flatMap { timeline in
            timeline.entries.flatMap { entry in
                ([entry.rest["url"]] + (entry.rest["links"]?.objectValue?.members.map(\.value) ?? []))
                    .compactMap { $0?.stringValue }
            }.map {
                ($0, "\(timeline.subject.name): \(Text.quoted($0))")
            }
        }
    }
}

// MARK: Appearance

extension LintRule {
    static let appearanceMissing = LintRule(
        "appearance/missing", .warning, "Content with variants has a light and a dark one",
        advice: "Send both, or content without variants."
    ) { observation in
        observation.timelines.compactMap { timeline in
            timeline.incompleteVariants.map {
                "\(timeline.subject.name): no \($0.light == nil ? "light" : "dark") variant"
            }
        }
    }

    static let appearanceMixed = LintRule(
        "appearance/mixed", .warning, "All entries have variants, or none",
        advice: "Send light and dark variants in every entry of a timeline."
    ) { observation in
        observation.timelines.compactMap { timeline in
            let (named, all) = (timeline.variants.count, timeline.entries.count)
            guard named > 0, named < all else { return nil }
            return "\(timeline.subject.name): \(named) of \(all) entries have variants"
        }
    }

    static let appearanceMembers = LintRule(
        "appearance/members", .note, "Light and dark variants have the same members",
        advice: "Add the missing members, unless one of the variants shows less on purpose."
    ) { observation in
        observation.timelines.compactMap { timeline in
            guard timeline.incompleteVariants == nil else { return nil }
            return timeline.variants.lazy.compactMap(unequalMembers).first.map {
                "\(timeline.subject.name): \($0) only in one variant"
            }
        }
    }

    private static func unequalMembers(_ variants: (light: JSONValue?, dark: JSONValue?)) -> String? {
        guard let light = variants.light?.objectValue, let dark = variants.dark?.objectValue else { return nil }
        let names = Set(light.keys).symmetricDifference(dark.keys).sorted()
        return names.isEmpty ? nil : names.prefix(3).map { Text.quoted($0) }.joined(separator: ", ")
    }
}

extension LintTimeline {
    /// Variants of the entries that have any.
    fileprivate var variants: [(light: JSONValue?, dark: JSONValue?)] {
        entries.compactMap { ($0.rest["content"] ?? .null).variants }
    }

    fileprivate var incompleteVariants: (light: JSONValue?, dark: JSONValue?)? {
        variants.first { $0.light == nil || $0.dark == nil }
    }
}

// MARK: Environment

extension LintRule {
    static let environmentLocale = LintRule(
        "environment/locale", .note, "Content differs by locale, if the kind varies by it",
        advice: "Translate the content, or leave locale out of variesBy: people then share more timelines."
    ) { $0.equalContent(by: \.locale) }

    static let environmentTimeZone = LintRule(
        "environment/time-zone", .note, "Content differs by time zone, if the kind varies by it",
        advice: "Use the time zone for dates and days, or leave timeZone out of variesBy."
    ) { $0.equalContent(by: \.timeZone) }

    static let environmentFamily = LintRule(
        "environment/family", .note, "Content differs by family, if the kind varies by it",
        advice: "Send larger widgets more content, or leave family out of variesBy."
    ) { $0.equalContent(by: \.family?.name) }

    static let environmentMidnight = LintRule(
        "environment/midnight", .warning, "Days begin at midnight of the person's time zone",
        advice: "Compute days in the request's timeZone; otherwise widgets change to the next day at the wrong hour."
    ) { $0.timelines.compactMap(\.foreignMidnight) }
}

extension LintObservation {
    /// The values of a property for which the content is the same, though the kind varies by it.
    fileprivate func equalContent(by property: KeyPath<TimelineIdentity, String?>) -> [String] {
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
}

extension LintTimeline {
    /// Clock of the request's time zone; nil for a kind that does not vary by it.
    fileprivate var timeZone: LocalClock? { subject.identity.timeZone.flatMap { LocalClock(timeZone: $0) } }

    /// An entry that begins at midnight in UTC, which is another time of the day for the person.
    ///
    /// Entries less than half a day from a neighbour, such as those of an hourly forecast, do not begin a day.
    fileprivate var foreignMidnight: String? {
        guard let timeZone else { return nil }
        let (dates, halfDay) = (entries.map(\.date), Duration.seconds(43_200))
        let days = dates.indices.dropFirst().filter { index in
            dates[index] - dates[index - 1] >= halfDay
                && (index + 1 == dates.count || dates[index + 1] - dates[index] >= halfDay)
        }.map { dates[$0] }
        guard let date = days.first(where: { $0.isMidnight(in: .utc) && !$0.isMidnight(in: timeZone) }) else {
            return nil
        }
        return
            "\(subject.name): the entry of \(date.rfc3339) begins at \(timeZone.clock(date)) in \(timeZone.timeZone)"
    }
}

extension Timestamp {
    fileprivate func isMidnight(in zone: LocalClock) -> Bool {
        (self + zone.offset(at: self)).microseconds.isMultiple(of: 86_400_000_000)
    }
}
