import ReloadWorkers
import WidgetModel

/// Requests are answered as the contract says.
enum ContractRules: LintRuleGroup {
    static let answer = LintRule(
        "contract/answer", .error, "Every request gets a readable answer with status 200",
        advice: "Answer POST {url}/timelines as schemas/provider.openapi.yaml describes.")
    static let element = LintRule(
        "contract/element", .error, "Every requested element is in the answer once, and valid",
        advice: "Fix the member that the JSON pointer names; an invalid timeline keeps its last content.")
    static let error = LintRule(
        "contract/error", .warning, "Requests are answered without errors",
        advice: "Give people that the provider knows with --user, or see the provider's logs.")
    static let foreign = LintRule(
        "contract/foreign", .warning, "Answers have only what was requested",
        advice: "Repeat the ids of the request; others are ignored.")
    static let unknownMembers = LintRule(
        "contract/unknown-members", .error, "Unknown members of a request are ignored",
        advice: "Ignore members that the provider does not know: version 1 of the contract grows.")

    static let rules = [answer, element, error, foreign, unknownMembers]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        var answers: [String] = []
        for timing in observation.timings {
            guard let failure = timing.failure, !isOptional(timing.endpoint, failure) else { continue }
            answers.append("POST \(timing.endpoint.path): \(failure.message)")
        }
        var elements: [String] = []
        var errors: [String] = []
        var foreign: [String] = []
        func add<Value>(_ list: [DeskAnswer<Value>]) {
            for answer in list {
                for element in answer.elements {
                    guard let failure = ProviderFailure(element.outcome) else { continue }
                    let place = "POST \(answer.timing.endpoint.path), \(element.subject.name): \(failure.message)"
                    if failure.reason == .provider { errors.append(place) } else { elements.append(place) }
                }
                if let id = answer.foreign.first { foreign.append("POST \(answer.timing.endpoint.path): \(id)") }
            }
        }
        for round in observation.rounds { add(round) }
        add(observation.snapshots)
        add(observation.placeholders)
        let refused = observation.trials.filter { $0.manner == .unknownMembers }.compactMap(\.failure)
        return observation.findings(at: [
            answer: answers, element: elements, error: errors, self.foreign: foreign,
            unknownMembers: refused.map { "a request with an unknown member: \($0.message)" },
        ])
    }

    /// Whether the provider only lacks an endpoint that it need not have.
    private static func isOptional(_ endpoint: ProviderEndpoint, _ failure: ProviderFailure) -> Bool {
        failure.saysAbsent && [.snapshot, .placeholder].contains(endpoint)
    }
}
