import JSON
import ReloadWorkers
import WidgetModel

/// Asks a provider everything that the rules look at.
struct LintProbe: Sendable {
    let trial: ProviderTrial
    /// Client whose clock is ten minutes slow.
    let late: ProviderTrial
    let users: [String]

    /// Environments that differ in language, direction of writing, and offset from UTC.
    private static let environments = [
        WidgetEnvironment(storedLocale: "en-US", timeZone: "America/New_York"),
        WidgetEnvironment(storedLocale: "de-DE", timeZone: "America/New_York"),
        WidgetEnvironment(storedLocale: "en-US", timeZone: "Asia/Kolkata"),
        WidgetEnvironment(storedLocale: "ar-EG", timeZone: "Africa/Cairo"),
    ]
    /// Distance of the rounds: dates have whole seconds.
    private static let roundDistance = Duration.milliseconds(1_100)

    func observe(_ kind: TrialKind) async throws -> LintObservation {
        var observation = LintObservation(kind: kind, began: WallClock.now())
        observation.choices = try await choices(kind)
        let subjects = subjects(kind, configuration: observation.configuration)
        try await addRound(subjects, kind, to: &observation)
        if kind.definition.hasSnapshots {
            observation.snapshots = try await trial.snapshots(of: subjects, kind)
        }
        observation.placeholders = [try await trial.placeholders(of: subjects, kind)]
        observation.attempts =
            try await attempts(subjects, kind) + unsignedAttempts(observation.answeredRequests, kind)
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
        observation.rounds.append(try await trial.timelines(of: subjects, kind))
    }

    /// Every family, every environment and every person, each with the others' first.
    private func subjects(_ kind: TrialKind, configuration: WidgetConfiguration) -> [TrialSubject] {
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

    private func choices(_ kind: TrialKind) async throws -> [LintChoice] {
        guard let intent = kind.definition.intent else { return [] }
        let context = ConfigurationContext(
            user: users[0], family: kind.definition.anyFamily, environment: Self.environments[0], values: .empty)
        var choices: [LintChoice] = []
        if intent.parameters.contains(where: \.hasDynamicDefault) {
            choices.append(
                try await choice("defaults", search: nil, .defaults, context.encode(kind: kind.definition.name), kind) {
                    bytes in
                    .defaults(try intent.dynamicDefaults(bytes, family: context.family))
                })
        }
        for parameter in intent.parameters where parameter.hasDynamicOptions {
            for search in parameter.searchPrompt == nil ? [nil] : [nil, "a"] {
                let question = OptionsQuestion(parameter: parameter.name, search: search, context: context)
                let body = question.normalized(for: intent).encode(kind: kind.definition.name)
                choices.append(
                    try await choice(parameter.name, search: search, .options, body, kind) { bytes in
                        .options(try IntentOptions(bytes, of: parameter))
                    })
            }
        }
        return choices
    }

    private func choice(
        _ name: String, search: String?, _ endpoint: ProviderEndpoint, _ body: [UInt8], _ kind: TrialKind,
        read: ([UInt8]) throws -> LintChoice.Answer
    ) async throws -> LintChoice {
        let timeout =
            endpoint == .defaults
            ? min(kind.definition.timeout, ConfigurationClient.defaultsTimeout) : kind.definition.timeout
        var choice = LintChoice(name: name, search: search, body: body, timing: TrialTiming(endpoint, limit: timeout))
        do {
            let bytes = try await trial.timed(trial.call(endpoint, body, of: kind, timeout: timeout), &choice.timing)
            do {
                choice.answer = try read(bytes)
            } catch {
                choice.timing.failure = ProviderFailure(
                    .invalid, "\(name): the answer is not what the contract says: \(error)")
            }
        } catch let failure as ProviderFailure {
            choice.timing.failure = failure
        }
        return choice
    }

    // MARK: Attempts

    private func attempts(_ subjects: [TrialSubject], _ kind: TrialKind) async throws -> [LintAttempt] {
        let items = subjects.prefix(1).map { ProviderRequest.Item(id: $0.id, identity: $0.identity) }
        let body = ProviderRequest.encode(items)
        let other = [SigningSecret.random().bytes]
        var attempts: [LintAttempt] = []
        for manner in LintAttempt.Manner.allCases {
            var call = trial.call(.timelines, body, of: kind, timeout: kind.definition.timeout)
            switch manner {
            case .wrongSecret: call.secrets = other
            case .noSignature: call.secrets = []
            case .oldTimestamp: break
            case .changedBody:
                let id = WebhookSignature.makeID()
                let timestamp = WallClock.now().microseconds / 1_000_000
                call.headers = [
                    "webhook-id": id, "webhook-timestamp": String(timestamp),
                    "webhook-signature": WebhookSignature(secrets: kind.secrets)
                        .sign(id: id, timestamp: timestamp, body: body + Array(" ".utf8)),
                ]
            case .twoSignatures: call.secrets = other + kind.secrets
            case .unknownMembers: call.body = Self.withUnknownMembers(body)
            }
            attempts.append(try await attempt(manner, call, manner == .oldTimestamp ? late : trial))
        }
        return attempts
    }

    /// Requests to optional endpoints with a wrong signature, and without one.
    private func unsignedAttempts(
        _ requests: [(timing: TrialTiming, body: [UInt8])], _ kind: TrialKind
    ) async throws -> [LintAttempt] {
        var attempts: [LintAttempt] = []
        for (timing, body) in requests {
            for manner in [LintAttempt.Manner.wrongSecret, .noSignature] {
                let secrets = manner == .wrongSecret ? [SigningSecret.random().bytes] : []
                let call = trial.call(timing.endpoint, body, of: kind, secrets: secrets, timeout: timing.limit)
                attempts.append(try await attempt(manner, call, trial))
            }
        }
        return attempts
    }

    private func attempt(_ manner: LintAttempt.Manner, _ call: ProviderCall, _ trial: ProviderTrial) async throws
        -> LintAttempt
    {
        do {
            _ = try await trial.client.fetch(call)
            return LintAttempt(manner: manner, endpoint: call.endpoint, failure: nil)
        } catch let failure as ProviderFailure {
            return LintAttempt(manner: manner, endpoint: call.endpoint, failure: failure)
        }
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
            element.value.map { LintTimeline(subject: element.subject, parsed: $0) }
        }
    }

    /// First successful request to each optional endpoint.
    var answeredRequests: [(timing: TrialTiming, body: [UInt8])] {
        let all =
            (snapshots + placeholders).map { (timing: $0.timing, body: $0.body) }
            + choices.map { (timing: $0.timing, body: $0.body) }
        return ProviderEndpoint.allCases.compactMap { endpoint in
            all.first { $0.timing.endpoint == endpoint && $0.timing.failure == nil }
        }
    }

    var timings: [TrialTiming] {
        rounds.flatMap { $0.map(\.timing) } + (snapshots + placeholders).map(\.timing) + choices.map(\.timing)
    }
}

/// A timeline with its entries.
struct LintTimeline: Sendable {
    struct Entry: Equatable, Sendable {
        let date: Timestamp
        /// The entry without its date.
        let rest: JSONValue

        var content: JSONValue { rest["content"] ?? .null }
        var url: String? { rest["url"]?.stringValue }
        var links: [String] { rest["links"]?.objectValue?.members.compactMap { $0.value.stringValue } ?? [] }
        var score: Double? { rest["relevance"]?["score"]?.numberValue?.double }
    }

    let subject: TrialSubject
    let parsed: ParsedTimeline
    let entries: [Entry]

    init(subject: TrialSubject, parsed: ParsedTimeline) {
        (self.subject, self.parsed) = (subject, parsed)
        let values = (try? JSONValue.parse(parsed.content))?["entries"]?.arrayValue ?? []
        entries = values.map { value in
            var rest = value.objectValue ?? JSONObject()
            rest["date"] = nil
            return Entry(
                date: value["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } ?? .distantPast, rest: .object(rest)
            )
        }
    }

    /// Earliest reload by policy.
    var reload: Timestamp? { parsed.policy.earliestReload(lastEntry: parsed.lastEntryDate) }
}

/// A question about a configuration, and its answer.
struct LintChoice: Sendable {
    enum Answer: Sendable {
        case options(IntentOptions)
        case defaults(WidgetConfiguration)
    }

    /// Parameter whose options were requested, such as `card`; `defaults` for a request for defaults.
    let name: String
    let search: String?
    /// Body of the request.
    var body: [UInt8] = []
    var timing: TrialTiming
    var answer: Answer?
}

/// A request that probes the provider's check of signatures or its tolerance of unknown members, and the reaction.
struct LintAttempt: Sendable {
    enum Manner: String, CaseIterable, Sendable {
        case wrongSecret, noSignature, oldTimestamp, changedBody
        /// The valid signature is the second of two.
        case twoSignatures
        case unknownMembers
    }

    let manner: Manner
    var endpoint = ProviderEndpoint.timelines
    /// Nil for an answer with status 200.
    let failure: ProviderFailure?
}
