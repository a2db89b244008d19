import FreshetService
import Logging
import ReloadWorkers
import SampleProvider
import ServiceLifecycle
import WidgetModel
import WidgetRepresentation

/// Asks a provider under development as the service asks it: signed, limited, and read by the same decoders.
struct Desk: Sendable {
    let client: ProviderClient
    let maximumResponseBytes: Int

    /// Lends the kinds of the options; with `--sample` the sample provider runs meanwhile.
    static func withKinds<Value: Sendable>(
        of options: DeskOptions, logger: Logger, _ body: ([DeskKind]) async throws -> Value
    ) async throws -> Value {
        let secret = SigningSecret.random()
        guard options.sample else {
            return try await body(try options.kinds(samplePort: nil, sampleSecret: secret))
        }
        let listening = ListeningPort()
        // Content changes with time and not with requests, as in an app.
        let provider = SampleProvider(
            seed: 1, keys: Dictionary(uniqueKeysWithValues: SampleApp.allCases.map { ($0, secret.bytes) }),
            changeInterval: .seconds(300), logger: logger, onListening: listening.listens(on:))
        let service = ListeningService(
            description: "provider", service: provider, port: listening, place: "the sample provider")
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            defer { group.cancelAll() }
            return try await body(try options.kinds(samplePort: try await listening.wait(), sampleSecret: secret))
        }
    }

    /// Settings under which providers on this machine may be called: the person names them on the command line.
    static func settings(_ options: SettingsOptions) throws -> Settings {
        var settings = try options.load().settings
        settings.providers.allowPrivateNetworks += ["127.0.0.0/8", "::1"]
        return settings
    }

    func call(
        _ endpoint: ProviderEndpoint, _ body: [UInt8], of kind: DeskKind, secrets: [[UInt8]]? = nil, timeout: Duration
    ) -> ProviderCall {
        ProviderCall(
            url: kind.definition.providerURL, endpoint: endpoint, secrets: secrets ?? kind.secrets, body: body,
            timeout: timeout, maximumResponseBytes: maximumResponseBytes)
    }

    /// Timelines of the subjects, in requests of at most `maxBatch`.
    func timelines(of subjects: [DeskSubject], _ kind: DeskKind) async throws -> [DeskAnswer<ParsedTimeline>] {
        try await batches(of: subjects, kind, .timelines, timeout: kind.definition.timeout) {
            bytes, batch throws(JSONError) in
            try ProviderResponse.parse(
                bytes,
                requested: batch.map {
                    RequestedTimeline(
                        $0.id, volatileFields: VolatileFields(kind.definition.volatilePointers),
                        family: $0.identity.family)
                })
        }
    }

    func snapshots(of subjects: [DeskSubject], _ kind: DeskKind) async throws -> [DeskAnswer<[UInt8]>] {
        try await batches(
            of: subjects, kind, .snapshot, timeout: kind.definition.snapshotLimit(WorkerConfiguration().snapshotLimit)
        ) {
            bytes, batch throws(JSONError) in
            try FallbackResponse.snapshots(bytes, requested: batch.map(\.id))
        }
    }

    /// Placeholders of the families and environments of the subjects, of which each has one.
    func placeholders(of subjects: [DeskSubject], _ kind: DeskKind) async throws -> DeskAnswer<[UInt8]> {
        let variesByTimeZone = kind.definition.variesBy.contains(.timeZone)
        var items: [PlaceholderIdentity] = []
        for subject in subjects {
            let item = PlaceholderIdentity(
                kind: kind.definition.name, family: subject.family, locale: subject.environment.locale,
                timeZone: variesByTimeZone ? subject.environment.timeZone : nil)
            if !items.contains(item) { items.append(item) }
        }
        items = Array(items.prefix(kind.definition.maxBatch))
        let body = PlaceholderRequest.encode(items, kind: kind.definition.name)
        let wanted = items.compactMap { item in
            subjects.first {
                $0.family == item.family && $0.environment.locale == item.locale
                    && (item.timeZone == nil || $0.environment.timeZone == item.timeZone)
            }
        }
        return try await ask(call(.placeholder, body, of: kind, timeout: kind.definition.timeout), wanted) {
            bytes throws(JSONError) in try FallbackResponse.placeholders(bytes, requested: items.map(\.id))
        }
    }

    private func batches<Value>(
        of subjects: [DeskSubject], _ kind: DeskKind, _ endpoint: ProviderEndpoint, timeout: Duration,
        read: ([UInt8], [DeskSubject]) throws(JSONError) -> ProviderAnswer<Value>
    ) async throws -> [DeskAnswer<Value>] {
        var answers: [DeskAnswer<Value>] = []
        for start in stride(from: 0, to: subjects.count, by: max(1, kind.definition.maxBatch)) {
            let batch = Array(subjects[start..<min(subjects.count, start + max(1, kind.definition.maxBatch))])
            let body = ProviderRequest.encode(batch.map { .init(id: $0.id, identity: $0.identity) })
            answers.append(
                try await ask(call(endpoint, body, of: kind, timeout: timeout), batch) { bytes throws(JSONError) in
                    try read(bytes, batch)
                })
        }
        return answers
    }

    private func ask<Value>(
        _ call: ProviderCall, _ subjects: [DeskSubject],
        read: ([UInt8]) throws(JSONError) -> ProviderAnswer<Value>
    ) async throws -> DeskAnswer<Value> {
        var answer = DeskAnswer<Value>(body: call.body, timing: DeskTiming(call.endpoint, limit: call.timeout))
        do {
            let bytes = try await timed(call, &answer.timing)
            do throws(JSONError) {
                let parsed = try read(bytes)
                answer.foreign = parsed.foreignIDs
                answer.elements = zip(subjects, parsed.outcomes).map { DeskElement(subject: $0, outcome: $1) }
            } catch {
                answer.timing.failure = ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
            }
        } catch let failure as ProviderFailure {
            answer.timing.failure = failure
        }
        return answer
    }

    /// The body of an answer; a failure is also recorded.
    func timed(_ call: ProviderCall, _ timing: inout DeskTiming) async throws -> [UInt8] {
        let clock = ContinuousClock()
        let start = clock.now
        defer { timing.duration = clock.now - start }
        return try await client.fetch(call)
    }
}

/// A widget for which a provider is asked.
struct DeskSubject: Hashable, Sendable {
    let identity: TimelineIdentity
    let family: WidgetFamily
    let environment: WidgetEnvironment
    let user: String

    var id: TimelineID { identity.id }

    init(
        _ kind: DeskKind, user: String, family: WidgetFamily, environment: WidgetEnvironment,
        configuration: WidgetConfiguration
    ) {
        let definition = kind.definition
        (self.user, self.family, self.environment) = (user, family, environment)
        identity = TimelineIdentity(
            app: kind.app, kind: definition.name, sharing: definition.sharing, variesBy: definition.variesBy,
            family: family, configuration: definition.effective(configuration, family: family),
            environment: environment, user: user)
    }

    /// Properties of the identity, for people.
    var name: String {
        let parts = [identity.user.map { "user \($0)" }, identity.family?.name, identity.locale, identity.timeZone]
        let known = parts.compactMap(\.self)
        return known.isEmpty ? "everyone" : known.joined(separator: ", ")
    }
}

/// Time that a request took.
struct DeskTiming: Sendable {
    let endpoint: ProviderEndpoint
    let limit: Duration
    var duration: Duration = .zero
    /// Failure of the whole request.
    var failure: ProviderFailure?

    init(_ endpoint: ProviderEndpoint, limit: Duration) {
        (self.endpoint, self.limit) = (endpoint, limit)
    }
}

struct DeskElement<Value: Hashable & Sendable>: Sendable {
    let subject: DeskSubject
    let outcome: ElementOutcome<Value>

    var value: Value? { if case .value(let value) = outcome { value } else { nil } }
}

/// Answer to a request for several elements.
struct DeskAnswer<Value: Hashable & Sendable>: Sendable {
    /// Body of the request.
    let body: [UInt8]
    var timing: DeskTiming
    var elements: [DeskElement<Value>] = []
    /// Ids that were not requested.
    var foreign: [String] = []
}
