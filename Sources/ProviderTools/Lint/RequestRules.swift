// SPDX-License-Identifier: Apache-2.0

import JSON
import ReloadWorkers
import WidgetModel

// Rules about the answers to single requests.

// MARK: Contract

extension LintRule {
    static let contractAnswer = LintRule(
        "contract/answer", .error, "Every request gets a readable answer with status 200",
        advice: "Answer POST {url}/timelines as schemas/provider.openapi.yaml describes."
    ) { observation in
        observation.requests.compactMap { request in
            guard let failure = request.failure else { return nil }
            // The provider need not have these endpoints.
            if failure.saysAbsent, [.snapshot, .placeholder].contains(request.endpoint) { return nil }
            let isUnsigned = observation.kind.secrets.isEmpty && (failure.status == 401 || failure.status == 403)
            return "POST \(request.endpoint.path): \(failure.message)"
                + (isUnsigned ? "; no secret was given: --secret-file" : "")
        }
    }

    static let contractElement = LintRule(
        "contract/element", .error, "Every requested element is in the answer once, and valid",
        advice: "Fix the member that the JSON pointer names; an invalid timeline keeps its last content."
    ) { observation in observation.failedElements { $0.reason != .provider } }

    static let contractError = LintRule(
        "contract/error", .warning, "Requests are answered without errors",
        advice: "Give people that the provider knows with --user, or see the provider's logs."
    ) { observation in observation.failedElements { $0.reason == .provider } }

    static let contractForeign = LintRule(
        "contract/foreign", .warning, "Answers have only what was requested",
        advice: "Repeat the ids of the request; others are ignored."
    ) { observation in
        func places<Value>(_ answers: [TrialAnswer<Value>]) -> [String] {
            answers.compactMap { answer in
                answer.foreign.first.map { "POST \(answer.request.endpoint.path): \($0)" }
            }
        }
        return places(Array(observation.rounds.joined())) + places(observation.snapshots)
            + places(observation.placeholders)
    }

    static let contractUnknownMembers = LintRule(
        "contract/unknown-members", .error, "Unknown members of a request are ignored",
        advice: "Ignore members that the provider does not know: version 1 of the contract grows."
    ) { observation in
        observation.attempts.filter { $0.manner == .unknownMembers }.compactMap(\.request.failure)
            .map { "a request with an unknown member: \($0.message)" }
    }
}

extension LintObservation {
    /// Elements of answers that failed in a way.
    fileprivate func failedElements(where isMeant: (ProviderFailure) -> Bool) -> [String] {
        func places<Value>(_ answers: [TrialAnswer<Value>]) -> [String] {
            answers.flatMap { answer in
                answer.elements.compactMap { element in
                    guard case .failure(let failure) = element.outcome, isMeant(failure) else { return nil }
                    return "POST \(answer.request.endpoint.path), \(element.subject.name): \(failure.message)"
                }
            }
        }
        return places(Array(rounds.joined())) + places(snapshots) + places(placeholders)
    }
}

// MARK: Signatures

extension LintRule {
    static let signatureWrong = LintRule(
        "signature/wrong", .error, "A request with a wrong signature is refused",
        advice: "Verify webhook-signature over the raw body with the app's secret; deploy/providers.md has code."
    ) { $0.acceptedRequests(.wrongSecret) }

    static let signatureMissing = LintRule(
        "signature/missing", .error, "A request without a signature is refused",
        advice: "Refuse requests whose webhook-signature is empty or missing."
    ) { $0.acceptedRequests(.noSignature) }

    static let signatureOld = LintRule(
        "signature/old", .error, "A request that was signed long ago is refused",
        advice:
            "Compare webhook-timestamp with the clock, with five minutes of tolerance; otherwise requests can be replayed."
    ) { $0.acceptedRequests(.oldTimestamp) }

    static let signatureBody = LintRule(
        "signature/body", .error, "A request whose body was changed is refused",
        advice: "Verify the signature over the raw bytes of the body, before parsing them."
    ) { $0.acceptedRequests(.changedBody) }

    static let signatureRotation = LintRule(
        "signature/rotation", .error, "A valid signature is accepted in second place",
        advice:
            "Compare each of the signatures, which are separated by spaces: there are two while a secret is replaced."
    ) { observation in
        observation.signatureAttempts.filter { $0.manner == .twoSignatures }.compactMap(\.request.failure)
            .map { "a request with two signatures: \($0.message)" }
    }

    static let signatureStatus = LintRule(
        "signature/status", .warning, "A wrong signature is refused with status 401",
        advice: "Answer 401: other statuses count as faults of the timelines or of the provider."
    ) { observation in
        observation.signatureAttempts.compactMap { attempt in
            guard let fault = attempt.manner.fault, let status = attempt.request.failure?.status, status != 401,
                status != 403
            else { return nil }
            return "POST \(attempt.request.endpoint.path) \(fault) was answered with status \(status)"
        }
    }
}

extension LintObservation {
    /// Attempts with other signatures. An unreachable provider, or one that refuses valid requests, says nothing about
    /// signatures.
    fileprivate var signatureAttempts: [LintAttempt] {
        rounds.first?.contains { $0.request.failure == nil } == true ? attempts : []
    }

    fileprivate func acceptedRequests(_ manner: LintManner) -> [String] {
        signatureAttempts.filter { $0.manner == manner && $0.request.failure == nil }
            .map { "POST \($0.request.endpoint.path) \(manner.fault ?? "") was answered with status 200" }
    }
}

extension LintManner {
    /// Fault of a signature that is to be refused.
    fileprivate var fault: String? {
        switch self {
        case .wrongSecret: "signed with another secret"
        case .noSignature: "without a signature"
        case .oldTimestamp: "signed ten minutes ago"
        case .changedBody: "with a signature of another body"
        case .twoSignatures, .unknownMembers: nil
        }
    }
}

// MARK: Latency

extension LintRule {
    static let latencySlow = LintRule(
        "latency/slow", .warning, "Answers take less than half of their time limit",
        advice:
            "Answer faster, or raise the kind's timeout: slower answers reduce the requests that are sent at a time."
    ) { observation in
        let share = ProtectionRules().slowShare
        return observation.requests.filter { $0.failure == nil && $0.duration > $0.limit * share }.map(\.text)
    }

    static let latencyLate = LintRule(
        "latency/late", .error, "Answers arrive within their time limit",
        advice: "Timelines have the kind's timeout, snapshots 2 s and defaults 1.5 s; late answers are not used."
    ) { observation in observation.requests.filter { $0.failure?.reason == .timeout }.map(\.text) }
}

extension TrialRequest {
    fileprivate var text: String { "POST \(endpoint.path) took \(duration.words) of \(limit.words)" }
}

// MARK: Repeated requests

extension LintRule {
    static let resendChanging = LintRule(
        "resend/changing", .warning, "The same request gets the same content a second later",
        advice: "List members that nobody sees in the kind's volatileFields; everything else counts as a change."
    ) { $0.differences.changed }

    static let resendDates = LintRule(
        "resend/dates", .warning, "The dates of unchanged content stay",
        advice: """
            Date entries by their content and not by the request: a changed date of a later entry, or of one with \
            relevance, is published as a change.
            """
    ) { $0.differences.moved }
}

extension LintObservation {
    /// Timelines that differ in every round: in their content, or only in their dates.
    fileprivate var differences: (changed: [String], moved: [String]) {
        let rounds = rounds.map { round in
            Dictionary(Self.timelines(of: round).map { ($0.subject, $0) }) { first, _ in first }
        }
        guard rounds.count >= 2, let last = rounds.last else { return ([], []) }
        var changed: [String] = []
        var moved: [String] = []
        let now = Timestamp.now()
        let volatile = kind.definition.volatilePointers
        for (subject, timeline) in last.sorted(by: { $0.key.name < $1.key.name }) {
            // A single change may be a real one: every round must differ.
            let history = rounds.compactMap { $0[subject] }
            guard history.count == rounds.count,
                zip(history, history.dropFirst())
                    .allSatisfy({ !$1.parsed.showsTheSame(as: $0.parsed.hash(at: now), at: now) })
            else { continue }
            let before = history[history.count - 2]
            let places = Self.difference(from: before, to: timeline).filter { place in
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
        return (changed, moved)
    }

    /// JSON pointers to members of entries that differ, without dates.
    private static func difference(from left: LintTimeline, to right: LintTimeline) -> [String] {
        guard left.entries.count == right.entries.count else {
            return ["\(left.entries.count) entries became \(right.entries.count)"]
        }
        return left.entries.indices.flatMap { index in
            difference(from: left.entries[index].rest, to: right.entries[index].rest, at: "/entries/\(index)")
        }
    }

    private static func difference(from left: JSONValue, to right: JSONValue, at pointer: String) -> [String] {
        switch (left, right) {
        case _ where left == right: []
        case (.object(let left), .object(let right)):
            Set(left.keys).union(right.keys).sorted().flatMap { key in
                difference(
                    from: left[key] ?? .null, to: right[key] ?? .null,
                    at: pointer + JSONPointer(tokens: [key]).text)
            }
        case (.array(let left), .array(let right)) where left.count == right.count:
            zip(left, right).enumerated().flatMap { difference(from: $1.0, to: $1.1, at: "\(pointer)/\($0)") }
        default: [pointer]
        }
    }
}

// MARK: Configuration

extension LintRule {
    static let configurationNoOptions = LintRule(
        "configuration/no-options", .warning, "A parameter with dynamic options has some",
        advice: "Answer an error instead of an empty list if the options are not available.",
        skipped: { $0.missingManifest },
        places: { observation in
            observation.choices.compactMap { choice in
                guard case .options(let options)? = choice.answer, options.sections.allSatisfy(\.items.isEmpty),
                    // A parameter with a search may have options only for a term.
                    !observation.parameters.contains(where: { $0.name == choice.name && $0.searchPrompt != nil })
                else { return nil }
                return "the parameter \(choice.name) has no options"
            }
        })

    static let configurationNoDefault = LintRule(
        "configuration/no-default", .note, "A parameter with a dynamic default gets one",
        advice: "Answer a value, or leave dynamicDefault out of the manifest.", skipped: { $0.missingManifest },
        places: { observation in
            observation.choices.flatMap { choice -> [String] in
                guard case .defaults(let values)? = choice.answer else { return [] }
                return observation.parameters.filter { $0.hasDynamicDefault && values.value[$0.name] == nil }
                    .map { "the parameter \($0.name) has no default" }
            }
        })

    static let configurationNoSnapshot = LintRule(
        "configuration/no-snapshot", .note, "A kind with snapshots has the endpoint",
        advice: "Serve POST {url}/snapshot, or set snapshots: false in the manifest."
    ) { observation in
        observation.snapshots.compactMap(\.request.failure).filter(\.saysAbsent)
            .map { "POST /snapshot: \($0.message)" }
    }
}

extension LintObservation {
    fileprivate var parameters: [IntentParameter] { kind.definition.intent?.parameters ?? [] }

    fileprivate var missingManifest: String? {
        kind.isDeclared ? nil : "the parameters are in the manifest; give --manifest"
    }
}
