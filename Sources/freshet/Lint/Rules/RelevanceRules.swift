import WidgetModel

/// Relevance distinguishes times that matter from those that do not.
enum RelevanceRules: LintRuleGroup {
    static let constant = LintRule(
        "relevance/constant", .warning, "Scores differ",
        advice: "Give a score above 0 only when the widget matters, or no relevance: a constant says nothing.")
    static let never = LintRule(
        "relevance/never", .warning, "Some scores are above 0",
        advice: "At 0 and below a widget is never rotated to; leave relevance out if that is meant.")

    static let rules = [constant, never]

    /// Number of scores from which equal ones are no chance.
    private static let sample = 5

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let scores = observation.timelines.flatMap { $0.entries.compactMap(\.score) }
        guard scores.count >= sample, let first = scores.first else { return [] }
        if scores.allSatisfy({ $0 <= 0 }) {
            return [observation.finding(never, ["all \(scores.count) scores are 0 or below"])].compactMap(\.self)
        }
        guard scores.allSatisfy({ $0 == first }) else { return [] }
        return [observation.finding(constant, ["all \(scores.count) scores are \(JSONNumber(first)?.text ?? "")"])]
            .compactMap(
                \.self)
    }
}
