import ReloadWorkers
import WidgetModel

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
