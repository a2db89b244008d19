import ReloadWorkers
import WidgetModel

/// Requests with wrong signatures are refused, and those with valid ones answered.
enum SignatureRules: LintRuleGroup {
    static let wrong = LintRule(
        "signature/wrong", .error, "A request with a wrong signature is refused",
        advice: "Verify webhook-signature over the raw body with the app's secret; deploy/providers.md has code.")
    static let missing = LintRule(
        "signature/missing", .error, "A request without a signature is refused",
        advice: "Refuse requests whose webhook-signature is empty or missing.")
    static let old = LintRule(
        "signature/old", .error, "A request that was signed long ago is refused",
        advice:
            "Compare webhook-timestamp with the clock, with five minutes of tolerance; otherwise requests can be replayed."
    )
    static let body = LintRule(
        "signature/body", .error, "A request whose body was changed is refused",
        advice: "Verify the signature over the raw bytes of the body, before parsing them.")
    static let rotation = LintRule(
        "signature/rotation", .error, "A valid signature is accepted in second place",
        advice:
            "Compare each of the signatures, which are separated by spaces: there are two while a secret is replaced.")
    static let status = LintRule(
        "signature/status", .warning, "A wrong signature is refused with status 401",
        advice: "Answer 401: other statuses count as faults of the timelines or of the provider.")

    static let rules = [wrong, missing, old, body, rotation, status]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        // An unreachable provider, or one that refuses valid requests, says nothing about signatures.
        guard observation.rounds.first?.contains(where: { $0.timing.failure == nil }) == true else { return [] }
        var places: [LintRule: [String]] = [:]
        var statuses: [String] = []
        for trial in observation.trials {
            let (rule, text): (LintRule, String)
            switch trial.manner {
            case .wrongSecret: (rule, text) = (wrong, "signed with another secret")
            case .noSignature: (rule, text) = (missing, "without a signature")
            case .oldTimestamp: (rule, text) = (old, "signed ten minutes ago")
            case .changedBody: (rule, text) = (body, "with a signature of another body")
            case .twoSignatures:
                if let failure = trial.failure {
                    places[rotation, default: []].append("a request with two signatures: \(failure.message)")
                }
                continue
            case .unknownMembers: continue
            }
            let request = "POST \(trial.endpoint.path) \(text)"
            if trial.failure == nil {
                places[rule, default: []].append("\(request) was answered with status 200")
            } else if let status = trial.failure?.status, status != 401, status != 403 {
                statuses.append("\(request) was answered with status \(status)")
            }
        }
        places[status] = statuses
        return rules.compactMap { observation.finding($0, places[$0] ?? []) }
    }
}
