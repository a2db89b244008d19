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
