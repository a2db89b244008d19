import ReloadWorkers
import WidgetModel

/// The same question gets an equivalent answer, so that unchanged content is neither stored nor published.
enum ResendRules: LintRuleGroup {
    static let changing = LintRule(
        "resend/changing", .warning, "The same request gets the same content a second later",
        advice: "List members that nobody sees in the kind's volatileFields; everything else counts as a change.")
    static let dates = LintRule(
        "resend/dates", .warning, "The dates of unchanged content stay",
        advice: """
            Date entries by their content and not by the request: a changed date of a later entry, or of one with \
            relevance, is published as a change.
            """)

    static let rules = [changing, dates]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let rounds = observation.rounds.map { round in
            Dictionary(LintObservation.timelines(of: round).map { ($0.subject, $0) }) { first, _ in first }
        }
        guard rounds.count >= 2, let last = rounds.last else { return [] }
        var changed: [String] = []
        var moved: [String] = []
        let now = WallClock.now()
        let volatile = observation.kind.definition.volatilePointers
        for (subject, timeline) in last.sorted(by: { $0.key.name < $1.key.name }) {
            // A single change may be a real one: every round must differ.
            let history = rounds.compactMap { $0[subject] }
            guard history.count == rounds.count,
                zip(history, history.dropFirst())
                    .allSatisfy({ !$1.parsed.showsTheSame(as: $0.parsed.hash(at: now), at: now) })
            else { continue }
            let before = history[history.count - 2]
            let places = difference(before, timeline).filter { place in
                let tokens = JSONPointer(place)?.tokens ?? []
                let isOfContent = tokens.count >= 3 && Text.equal(tokens[2], "content")
                return !(isOfContent && volatile.contains { $0.covers(tokens.dropFirst(3)) })
            }
            if places.isEmpty {
                moved.append(
                    "\(subject.name): \(before.parsed.firstEntryDate) became \(timeline.parsed.firstEntryDate)")
            } else {
                changed.append("\(subject.name): \(places.prefix(3).joined(separator: ", "))")
            }
        }
        return observation.findings(at: [changing: changed, dates: moved])
    }

    /// JSON pointers to members of entries that differ, without dates.
    private static func difference(_ left: LintTimeline, _ right: LintTimeline) -> [String] {
        guard left.entries.count == right.entries.count else {
            return ["\(left.entries.count) entries became \(right.entries.count)"]
        }
        return left.entries.indices.flatMap { index in
            difference(left.entries[index].rest, right.entries[index].rest, at: "/entries/\(index)")
        }
    }

    private static func difference(_ left: JSONValue, _ right: JSONValue, at pointer: String) -> [String] {
        switch (left, right) {
        case _ where left == right: []
        case (.object(let left), .object(let right)):
            Set(left.keys).union(right.keys).sorted().flatMap { key in
                difference(
                    left[key] ?? .null, right[key] ?? .null,
                    at: pointer + JSONPointer(tokens: [key]).text)
            }
        case (.array(let left), .array(let right)) where left.count == right.count:
            zip(left, right).enumerated().flatMap { difference($1.0, $1.1, at: "\(pointer)/\($0)") }
        default: [pointer]
        }
    }
}

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

/// Options and defaults help a person to configure a widget, and optional endpoints agree with the manifest.
enum ConfigurationRules: LintRuleGroup {
    static let noOptions = LintRule(
        "configuration/no-options", .warning, "A parameter with dynamic options has some",
        advice: "Answer an error instead of an empty list if the options are not available.")
    static let noDefault = LintRule(
        "configuration/no-default", .note, "A parameter with a dynamic default gets one",
        advice: "Answer a value, or leave dynamicDefault out of the manifest.")
    static let noSnapshot = LintRule(
        "configuration/no-snapshot", .note, "A kind with snapshots has the endpoint",
        advice: "Serve POST {url}/snapshot, or set snapshots: false in the manifest.")

    static let rules = [noOptions, noDefault, noSnapshot]

    static func skipped(in observation: LintObservation) -> [LintSkip] {
        guard !observation.kind.isDeclared else { return [] }
        return [noOptions, noDefault].map {
            LintSkip(
                rule: $0, kind: observation.kind.name, reason: "the parameters are in the manifest; give --manifest")
        }
    }

    static func findings(in observation: LintObservation) -> [LintFinding] {
        var empty: [String] = []
        var undecided: [String] = []
        let parameters = observation.kind.definition.intent?.parameters ?? []
        for choice in observation.choices {
            switch choice.answer {
            case .options(let options)? where options.sections.allSatisfy(\.items.isEmpty):
                // A parameter with a search may have options only for a term.
                let searches = parameters.contains { $0.name == choice.name && $0.searchPrompt != nil }
                if !searches { empty.append("the parameter \(choice.name) has no options") }
            case .defaults(let values)?:
                undecided += parameters.filter { $0.hasDynamicDefault && values.value[$0.name] == nil }
                    .map { "the parameter \($0.name) has no default" }
            case .options?, nil: break
            }
        }
        let absent = observation.snapshots.compactMap(\.timing.failure).filter(\.saysAbsent)
        return observation.findings(at: [
            noOptions: empty, noDefault: undecided, noSnapshot: absent.map { "POST /snapshot: \($0.message)" },
        ])
    }
}
