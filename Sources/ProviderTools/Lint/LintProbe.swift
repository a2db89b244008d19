// SPDX-License-Identifier: Apache-2.0

import JSON
import ReloadWorkers
import WidgetModel

extension ProviderTrial {
    /// Environments that differ in language, direction of writing, and offset from UTC.
    private static let environments = [
        WidgetEnvironment(storedLocale: "en-US", timeZone: "America/New_York"),
        WidgetEnvironment(storedLocale: "de-DE", timeZone: "America/New_York"),
        WidgetEnvironment(storedLocale: "en-US", timeZone: "Asia/Kolkata"),
        WidgetEnvironment(storedLocale: "ar-EG", timeZone: "Africa/Cairo"),
    ]
    /// Distance of the rounds: dates have whole seconds.
    private static let roundDistance = Duration.milliseconds(1_100)

    /// Asks a provider everything that the rules look at.
    ///
    /// - Parameter late: client whose clock is ten minutes slow.
    func observe(_ kind: TrialKind, users: [String], late: ProviderClient) async throws -> LintObservation {
        var observation = LintObservation(kind: kind, began: Timestamp.now())
        observation.choices = try await choices(kind, user: users[0])
        let subjects = subjects(kind, users: users, configuration: observation.configuration)
        try await addRound(subjects, kind, to: &observation)
        if kind.definition.hasSnapshots {
            observation.snapshots = try await snapshots(of: subjects, kind)
        }
        observation.placeholders = [try await placeholders(of: subjects, kind)]
        observation.attempts =
            try await attempts(subjects, kind, late: late) + unsignedAttempts(observation.answeredRequests, kind)
        try await addRound(subjects, kind, to: &observation)
        // A difference may be a change of the data; two in a row are none.
        if [LintRule.resendChanging, .resendDates].contains(where: { !$0.places(observation).isEmpty }) {
            try await addRound(subjects, kind, to: &observation)
        }
        return observation
    }

    private func addRound(
        _ subjects: [TrialSubject], _ kind: TrialKind, to observation: inout LintObservation
    ) async throws {
        if !observation.rounds.isEmpty { try await Task.sleep(for: Self.roundDistance) }
        observation.rounds.append(try await timelines(of: subjects, kind))
    }

    /// Every family, every environment and every person, each with the others' first.
    private func subjects(
        _ kind: TrialKind, users: [String], configuration: WidgetConfiguration
    ) -> [TrialSubject] {
        func subject(_ user: String, _ family: WidgetFamily, _ environment: WidgetEnvironment) -> TrialSubject {
            TrialSubject(kind, user: user, family: family, environment: environment, configuration: configuration)
        }
        let (user, family, environment) = (users[0], kind.definition.anyFamily, Self.environments[0])
        let all =
            kind.definition.families.map { subject(user, $0, environment) }
            + Self.environments.map { subject(user, family, $0) }
            + users.map { subject($0, family, environment) }
        var known: Set<TimelineID> = []
        return all.filter { known.insert($0.id).inserted }
    }

    // MARK: Configuration

    private func choices(_ kind: TrialKind, user: String) async throws -> [LintChoice] {
        guard let intent = kind.definition.intent else { return [] }
        let context = ConfigurationContext(
            user: user, family: kind.definition.anyFamily, environment: Self.environments[0], values: .empty)
        var choices: [LintChoice] = []
        if intent.parameters.contains(where: \.hasDynamicDefault) {
            choices.append(
                try await choice("defaults", .defaults, context.encode(kind: kind.definition.name), kind) {
                    bytes in
                    .defaults(try intent.dynamicDefaults(bytes, family: context.family))
                })
        }
        for parameter in intent.parameters where parameter.hasDynamicOptions {
            for search in parameter.searchPrompt == nil ? [nil] : [nil, "a"] {
                let question = OptionsQuestion(parameter: parameter.name, search: search, context: context)
                let body = question.normalized(for: intent).encode(kind: kind.definition.name)
                choices.append(
                    try await choice(parameter.name, .options, body, kind) { bytes in
                        .options(try IntentOptions(bytes, of: parameter))
                    })
            }
        }
        return choices
    }

    private func choice(
        _ name: String, _ endpoint: ProviderEndpoint, _ body: [UInt8], _ kind: TrialKind,
        read: ([UInt8]) throws -> LintAnswer
    ) async throws -> LintChoice {
        let timeout =
            endpoint == .defaults
            ? min(kind.definition.timeout, ConfigurationClient.defaultsTimeout) : kind.definition.timeout
        var choice: LintChoice = (name, TrialRequest(endpoint, body, limit: timeout), nil)
        do {
            let bytes = try await timed(call(endpoint, body, of: kind, timeout: timeout), &choice.request)
            do {
                choice.answer = try read(bytes)
            } catch {
                choice.request.failure = ProviderFailure(
                    .invalid, "\(name): the answer is not what the contract says: \(error)")
            }
        } catch let failure as ProviderFailure {
            choice.request.failure = failure
        }
        return choice
    }

    // MARK: Attempts

    private func attempts(
        _ subjects: [TrialSubject], _ kind: TrialKind, late: ProviderClient
    ) async throws -> [LintAttempt] {
        let items = subjects.prefix(1).map { (id: $0.id, identity: $0.identity) }
        let body = ProviderEndpoint.encode(timelines: items)
        let other = [SigningSecret.random().bytes]
        var attempts: [LintAttempt] = []
        for manner in LintManner.allCases {
            var call = call(.timelines, body, of: kind, timeout: kind.definition.timeout)
            switch manner {
            case .wrongSecret: call.secrets = other
            case .noSignature: call.secrets = []
            case .oldTimestamp: break
            case .changedBody:
                let id = ProviderClient.makeMessageID()
                let timestamp = Timestamp.now().microseconds / 1_000_000
                call.headers = [
                    "webhook-id": id, "webhook-timestamp": String(timestamp),
                    "webhook-signature": ProviderClient.signature(
                        secrets: kind.secrets, id: id, timestamp: timestamp, body: body + Array(" ".utf8)),
                ]
            case .twoSignatures: call.secrets = other + kind.secrets
            case .unknownMembers: call.body = Self.withUnknownMembers(body)
            }
            attempts.append(try await attempt(manner, call, manner == .oldTimestamp ? late : client))
        }
        return attempts
    }

    /// Requests to optional endpoints with a wrong signature, and without one.
    private func unsignedAttempts(
        _ requests: [TrialRequest], _ kind: TrialKind
    ) async throws -> [LintAttempt] {
        var attempts: [LintAttempt] = []
        for request in requests {
            for manner in [LintManner.wrongSecret, .noSignature] {
                let secrets = manner == .wrongSecret ? [SigningSecret.random().bytes] : []
                let call = call(
                    request.endpoint, request.body, of: kind, secrets: secrets, timeout: request.limit)
                attempts.append(try await attempt(manner, call, client))
            }
        }
        return attempts
    }

    private func attempt(
        _ manner: LintManner, _ call: ProviderCall, _ client: ProviderClient
    ) async throws -> LintAttempt {
        var request = TrialRequest(call.endpoint, call.body, limit: call.timeout)
        do {
            _ = try await client.fetch(call)
        } catch let failure as ProviderFailure {
            request.failure = failure
        }
        return (manner, request)
    }

    private static func withUnknownMembers(_ body: [UInt8]) -> [UInt8] {
        guard case .object(var request)? = try? JSONValue.parse(body) else { return body }
        let unknown: JSONValue = ["of": ["a": "later version"]]
        request["x-lint"] = unknown
        request["requests"] = .array(
            (request["requests"]?.arrayValue ?? []).map { item in
                var item = item.objectValue ?? JSONObject()
                item["x-lint"] = unknown
                return .object(item)
            })
        return JSONValue.object(request).encoded
    }
}

extension LintObservation {
    /// Dynamic defaults, as a new widget gets them.
    fileprivate var configuration: WidgetConfiguration {
        for choice in choices {
            if case .defaults(let values)? = choice.answer { return values }
        }
        return .empty
    }
}

/// Answers of a provider for one kind: everything that the rules look at.
struct LintObservation: Sendable {
    let kind: TrialKind
    /// Time of the first request.
    let began: Timestamp
    /// Answers to the same requests, one after another, at least a second apart.
    var rounds: [[TrialAnswer<ParsedTimeline>]] = []
    var snapshots: [TrialAnswer<[UInt8]>] = []
    var placeholders: [TrialAnswer<[UInt8]>] = []
    /// Requests for options and defaults.
    var choices: [LintChoice] = []
    var attempts: [LintAttempt] = []

    /// Readable timelines of the first round.
    var timelines: [LintTimeline] { Self.timelines(of: rounds.first ?? []) }

    static func timelines(of answers: [TrialAnswer<ParsedTimeline>]) -> [LintTimeline] {
        answers.flatMap(\.elements).compactMap { element in
            (try? element.outcome.get()).map { LintTimeline(subject: element.subject, parsed: $0) }
        }
    }

    /// First successful request to each optional endpoint.
    var answeredRequests: [TrialRequest] {
        let all = (snapshots + placeholders).map(\.request) + choices.map(\.request)
        return ProviderEndpoint.allCases.compactMap { endpoint in
            all.first { $0.endpoint == endpoint && $0.failure == nil }
        }
    }

    /// All requests but the attempts.
    var requests: [TrialRequest] {
        rounds.flatMap { $0.map(\.request) } + (snapshots + placeholders).map(\.request) + choices.map(\.request)
    }
}

/// A timeline with its entries.
struct LintTimeline: Sendable {
    let subject: TrialSubject
    let parsed: ParsedTimeline
    /// Entries without their dates.
    let entries: [(date: Timestamp, rest: JSONValue)]

    init(subject: TrialSubject, parsed: ParsedTimeline) {
        (self.subject, self.parsed) = (subject, parsed)
        let values = (try? JSONValue.parse(parsed.content))?["entries"]?.arrayValue ?? []
        entries = values.map { value in
            var rest = value.objectValue ?? JSONObject()
            rest["date"] = nil
            let date = value["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
            return (date ?? .distantPast, .object(rest))
        }
    }

    /// Earliest reload by policy.
    var reload: Timestamp? { parsed.policy.earliestReload(lastEntry: parsed.lastEntryDate) }
}

/// A question about a configuration, and its answer: the name is that of the parameter whose options were requested,
/// such as `card`, or `defaults` for a request for defaults.
typealias LintChoice = (name: String, request: TrialRequest, answer: LintAnswer?)

enum LintAnswer: Sendable {
    case options(IntentOptions)
    case defaults(WidgetConfiguration)
}

/// A request that probes the provider's check of signatures or its tolerance of unknown members, and the reaction.
typealias LintAttempt = (manner: LintManner, request: TrialRequest)

/// Fault of a request that probes the provider, or its peculiarity.
enum LintManner: String, CaseIterable, Sendable {
    case wrongSecret, noSignature, oldTimestamp, changedBody
    /// The valid signature is the second of two.
    case twoSignatures
    case unknownMembers
}
