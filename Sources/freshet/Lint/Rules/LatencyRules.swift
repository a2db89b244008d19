import ReloadWorkers
import WidgetModel

/// Answers arrive in time.
enum LatencyRules: LintRuleGroup {
    static let slow = LintRule(
        "latency/slow", .warning, "Answers take less than half of their time limit",
        advice:
            "Answer faster, or raise the kind's timeout: slower answers reduce the requests that are sent at a time.")
    static let late = LintRule(
        "latency/late", .error, "Answers arrive within their time limit",
        advice: "Timelines have the kind's timeout, snapshots 2 s and defaults 1.5 s; late answers are not used.")

    static let rules = [slow, late]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let share = ProtectionRules().slowShare
        func text(_ timing: DeskTiming) -> String {
            let taken = timing.duration.words
            let limit = timing.limit.words
            return "POST \(timing.endpoint.path) took \(taken) of \(limit)"
        }
        let late = observation.timings.filter { $0.failure?.reason == .timeout }
        let slow = observation.timings.filter { $0.failure == nil && $0.duration > $0.limit * share }
        return observation.findings(at: [self.late: late.map(text), self.slow: slow.map(text)])
    }
}
