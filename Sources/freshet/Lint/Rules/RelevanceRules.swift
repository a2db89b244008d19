import WidgetModel

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
