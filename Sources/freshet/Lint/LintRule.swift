import WidgetModel

/// A property that a provider should have.
struct LintRule: Hashable, Sendable {
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

    init(_ id: String, _ severity: Severity, _ title: String, advice: String) {
        (self.id, self.severity, self.title, self.advice) = (id, severity, title, advice)
    }
}

/// Rules about one subject, as pure functions of what a provider answered.
protocol LintRuleGroup: SendableMetatype {
    static var rules: [LintRule] { get }
    static func findings(in observation: LintObservation) -> [LintFinding]
    /// Rules that the observation has too little data for.
    static func skipped(in observation: LintObservation) -> [LintSkip]
}

extension LintRuleGroup {
    static func skipped(in observation: LintObservation) -> [LintSkip] { [] }
}

/// A rule that a kind breaks.
struct LintFinding: Hashable, Sendable {
    let rule: LintRule
    /// App and kind.
    let kind: String
    /// Observed facts, without secrets.
    let evidence: String
}

/// A rule that cannot be checked for a kind.
struct LintSkip: Hashable, Sendable {
    let rule: LintRule
    /// App and kind.
    let kind: String
    let reason: String
}

extension LintObservation {
    /// A finding, with the first of several places as its evidence.
    func finding(_ rule: LintRule, _ places: [String]) -> LintFinding? {
        guard let first = places.first else { return nil }
        let others = places.count > 1 ? " (and \(places.count - 1) more)" : ""
        return LintFinding(rule: rule, kind: kind.name, evidence: first + others)
    }

    /// Findings of the rules that are broken anywhere.
    func findings(at places: KeyValuePairs<LintRule, [String]>) -> [LintFinding] {
        places.compactMap { finding($0.key, $0.value) }
    }
}

extension LintRule {
    /// Every rule, in the order of the groups.
    static let all: [LintRule] = groups.flatMap { $0.rules }

    static let groups: [any LintRuleGroup.Type] = [
        ContractRules.self, SignatureRules.self, LatencyRules.self, ScheduleRules.self, ContentRules.self,
        RelevanceRules.self, LinkRules.self, AppearanceRules.self, EnvironmentRules.self, ResendRules.self,
        ConfigurationRules.self,
    ]
}

extension LintObservation {
    /// Findings of all rules, the most severe first.
    var findings: [LintFinding] {
        LintRule.groups.flatMap { $0.findings(in: self) }.enumerated()
            .sorted { ($1.element.rule.severity, $0.offset) < ($0.element.rule.severity, $1.offset) }.map(\.element)
    }

    /// Rules that could not be checked.
    var skipped: [LintSkip] { LintRule.groups.flatMap { $0.skipped(in: self) } }
}
