// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// A property that a provider should have.
struct LintRule: Sendable {
    /// Severity of a finding, by the names of SARIF.
    enum Severity: String, CaseIterable, Comparable, Sendable {
        /// Legal, and possibly intended.
        case note
        /// Legal but unwise.
        case warning
        /// Breaks the contract.
        case error

        static func < (left: Severity, right: Severity) -> Bool {
            allCases.firstIndex(of: left) ?? 0 < allCases.firstIndex(of: right) ?? 0
        }
    }

    let id: String
    let severity: Severity
    /// Statement that holds for a good provider.
    let title: String
    let advice: String
    /// Reason why the rule cannot be checked with what a provider answered; nil if it can.
    let skipped: @Sendable (LintObservation) -> String?
    /// Facts that break the rule, without secrets. A pure function of what a provider answered.
    let places: @Sendable (LintObservation) -> [String]

    init(
        _ id: String, _ severity: Severity, _ title: String, advice: String,
        skipped: @escaping @Sendable (LintObservation) -> String? = { _ in nil },
        places: @escaping @Sendable (LintObservation) -> [String]
    ) {
        (self.id, self.severity, self.title, self.advice) = (id, severity, title, advice)
        (self.skipped, self.places) = (skipped, places)
    }

    /// Every rule.
    static let all = [
        contractAnswer, contractElement, contractError, contractForeign, contractUnknownMembers, signatureWrong,
        signatureMissing, signatureOld, signatureBody, signatureRotation, signatureStatus, latencySlow, latencyLate,
        scheduleShortGap, scheduleSingleAtEnd, scheduleRoundHour, scheduleSameTime, schedulePast, scheduleNoneYet,
        contentLarge, contentRepeated, relevanceConstant, relevanceNever, linksNone, linksSeveral, linksRelative,
        linksUnsafe, appearanceMissing, appearanceMixed, appearanceMembers, environmentLocale, environmentTimeZone,
        environmentFamily, environmentMidnight, resendChanging, resendDates, configurationNoOptions,
        configurationNoDefault, configurationNoSnapshot,
    ]
}

extension LintRule: Hashable {
    static func == (left: LintRule, right: LintRule) -> Bool { left.id == right.id }

    func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

/// A rule that a kind of an app breaks, with the observed facts, without secrets.
typealias LintFinding = (rule: LintRule, kind: String, evidence: String)

/// A rule that cannot be checked for a kind of an app.
typealias LintSkip = (rule: LintRule, kind: String, reason: String)

extension LintObservation {
    /// Findings of all rules, the most severe first, each with the first of its places.
    var findings: [LintFinding] {
        let found = LintRule.all.compactMap { rule -> LintFinding? in
            let places = rule.places(self)
            guard let first = places.first else { return nil }
            let others = places.count > 1 ? " (and \(places.count - 1) more)" : ""
            return (rule, kind.name, first + others)
        }
        return found.enumerated()
            .sorted { ($1.element.rule.severity, $0.offset) < ($0.element.rule.severity, $1.offset) }.map(\.element)
    }

    /// Rules that could not be checked.
    var skipped: [LintSkip] {
        LintRule.all.compactMap { rule in
            rule.skipped(self).map { (rule, kind.name, $0) }
        }
    }
}
