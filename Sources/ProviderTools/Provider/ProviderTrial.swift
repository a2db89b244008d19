// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import Logging
import ReloadWorkers
import SampleProvider
import ServiceLifecycle
import WidgetModel

/// Asks a provider under development as the service asks it: signed, limited, and read by the same decoders.
struct ProviderTrial: Sendable {
    let client: ProviderClient
    let maximumResponseBytes: Int

    /// Lends the kinds of the options; with `--sample` the sample provider runs meanwhile.
    static func withKinds<Value: Sendable>(
        of options: TrialOptions, logger: Logger, _ body: ([TrialKind]) async throws -> Value
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
        let service = listening.service("provider", at: "the sample provider", provider)
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
        _ endpoint: ProviderEndpoint, _ body: [UInt8], of kind: TrialKind, secrets: [[UInt8]]? = nil, timeout: Duration
    ) -> ProviderCall {
        ProviderCall(
            url: kind.definition.providerURL, endpoint: endpoint, secrets: secrets ?? kind.secrets, body: body,
            timeout: timeout, maximumResponseBytes: maximumResponseBytes)
    }

    /// Timelines of the subjects, in requests of at most `maxBatch`.
    func timelines(of subjects: [TrialSubject], _ kind: TrialKind) async throws -> [TrialAnswer<ParsedTimeline>] {
        try await batches(of: subjects, kind, .timelines, timeout: kind.definition.timeout) {
            bytes, batch throws(JSONError) in
            try ProviderResponse.parse(
                bytes,
                requested: batch.map {
                    RequestedTimeline(
                        $0.id, volatileFields: kind.definition.volatilePointers,
                        family: $0.identity.family)
                })
        }
    }

    func snapshots(of subjects: [TrialSubject], _ kind: TrialKind) async throws -> [TrialAnswer<[UInt8]>] {
        try await batches(
            of: subjects, kind, .snapshot, timeout: kind.definition.snapshotLimit(WorkerConfiguration().snapshotLimit)
        ) {
            bytes, batch throws(JSONError) in
            try FallbackResponse.snapshots(bytes, requested: batch.map(\.id))
        }
    }

    /// Placeholders of the families and environments of the subjects, of which each has one.
    func placeholders(of subjects: [TrialSubject], _ kind: TrialKind) async throws -> TrialAnswer<[UInt8]> {
        let variesByTimeZone = kind.definition.variesBy.contains(.timeZone)
        var items: [PlaceholderIdentity] = []
        for subject in subjects {
            let item = PlaceholderIdentity(
                kind: kind.definition.name, family: subject.family, locale: subject.environment.locale,
                timeZone: variesByTimeZone ? subject.environment.timeZone : nil)
            if !items.contains(item) { items.append(item) }
        }
        items = Array(items.prefix(kind.definition.maxBatch))
        let body = ProviderEndpoint.encode(placeholders: items, kind: kind.definition.name)
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
        of subjects: [TrialSubject], _ kind: TrialKind, _ endpoint: ProviderEndpoint, timeout: Duration,
        read: ([UInt8], [TrialSubject]) throws(JSONError) -> ProviderAnswer<Value>
    ) async throws -> [TrialAnswer<Value>] {
        var answers: [TrialAnswer<Value>] = []
        for start in stride(from: 0, to: subjects.count, by: max(1, kind.definition.maxBatch)) {
            let batch = Array(subjects[start..<min(subjects.count, start + max(1, kind.definition.maxBatch))])
            let body = ProviderEndpoint.encode(timelines: batch.map { ($0.id, $0.identity) })
            answers.append(
                try await ask(call(endpoint, body, of: kind, timeout: timeout), batch) { bytes throws(JSONError) in
                    try read(bytes, batch)
                })
        }
        return answers
    }

    private func ask<Value>(
        _ call: ProviderCall, _ subjects: [TrialSubject],
        read: ([UInt8]) throws(JSONError) -> ProviderAnswer<Value>
    ) async throws -> TrialAnswer<Value> {
        var answer = TrialAnswer<Value>(request: TrialRequest(call.endpoint, call.body, limit: call.timeout))
        do {
            let bytes = try await timed(call, &answer.request)
            do throws(JSONError) {
                let parsed = try read(bytes)
                answer.foreign = parsed.foreignIDs
                answer.elements = zip(subjects, parsed.outcomes).map { ($0, $1) }
            } catch {
                answer.request.failure = ProviderFailure(error)
            }
        } catch let failure as ProviderFailure {
            answer.request.failure = failure
        }
        return answer
    }

    /// The body of an answer; a failure is also recorded.
    func timed(_ call: ProviderCall, _ request: inout TrialRequest) async throws -> [UInt8] {
        let clock = ContinuousClock()
        let start = clock.now
        defer { request.duration = clock.now - start }
        return try await client.fetch(call)
    }
}

/// A widget for which a provider is asked.
struct TrialSubject: Hashable, Sendable {
    let identity: TimelineIdentity
    let family: WidgetFamily
    let environment: WidgetEnvironment
    let user: String

    var id: TimelineID { identity.id }

    init(
        _ kind: TrialKind, user: String, family: WidgetFamily, environment: WidgetEnvironment,
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

/// A request, with the time that it took.
struct TrialRequest: Sendable {
    let endpoint: ProviderEndpoint
    let body: [UInt8]
    let limit: Duration
    var duration: Duration = .zero
    /// Failure of the whole request; nil for an answer with status 200.
    var failure: ProviderFailure?

    init(
        _ endpoint: ProviderEndpoint, _ body: [UInt8] = [], limit: Duration = .zero, failure: ProviderFailure? = nil
    ) {
        (self.endpoint, self.body, self.limit, self.failure) = (endpoint, body, limit, failure)
    }
}

/// Answer to a request for several elements.
struct TrialAnswer<Value: Hashable & Sendable>: Sendable {
    var request: TrialRequest
    var elements: [(subject: TrialSubject, outcome: Result<Value, ProviderFailure>)] = []
    /// Ids that were not requested.
    var foreign: [String] = []
}

/// A provider under development, with its kinds.
struct TrialOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "URL of the provider; of all kinds of the manifest if there is one. Without a manifest, neither options nor defaults are requested.",
            valueName: "url"))
    var provider: String?

    @Option(help: ArgumentHelp("Manifest with the kinds.", valueName: "file"), completion: .file())
    var manifest: String?

    @Flag(help: "Run the sample provider in this process, with its kinds.")
    var sample = false

    @Option(help: "A kind; can be given several times. All kinds of the manifest by default.")
    var kind: [String] = []

    @Option(
        help: ArgumentHelp("File with the signing secret; the manifest's by default.", valueName: "file"),
        completion: .file())
    var secretFile: String?

    @Option(
        help: """
            A person for whom the provider answers; can be given several times. By default the made-up \
            freshet-lint-1 to freshet-lint-3.
            """,
        transform: OptionText.identifier)
    var user: [String] = []

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        guard sample || provider != nil || manifest != nil else {
            throw ValidationError("give --provider with --kind, --manifest or --sample")
        }
        if sample, provider != nil || manifest != nil || secretFile != nil {
            throw ValidationError("--sample has its own provider, kinds and secret")
        }
        if provider != nil, manifest == nil, kind.isEmpty {
            throw ValidationError("--provider needs a --kind or a --manifest: a provider cannot list its kinds")
        }
        if let provider {
            do throws(ModelError) {
                _ = try ProviderURL(provider)
            } catch {
                throw ValidationError("--provider: \(error.message)")
            }
        }
    }

    var users: [String] { user.isEmpty ? ["freshet-lint-1", "freshet-lint-2", "freshet-lint-3"] : user }
}

extension [Manifest] {
    /// Reports on standard error the apps without a secret, whose providers refuse requests.
    func complainAboutMissingSecrets(remedy: String) {
        let names = filter { $0.signingSecret == nil }.map(\.definition.name)
        guard !names.isEmpty else { return }
        Terminal.complain(
            "requests are not signed: the manifest has no signing secret of \(names.joined(separator: ", ")): \(remedy)"
        )
    }
}

/// A kind whose provider is asked.
struct TrialKind: Sendable {
    let app: String
    var definition: KindDefinition
    /// The newest first; empty if none is known, so that requests have no valid signature.
    let secrets: [[UInt8]]
    /// Whether the kind comes from a manifest. Without one, its parameters are unknown.
    var isDeclared = true

    var name: String { "\(app)/\(definition.name)" }
}

extension TrialOptions {
    /// Name of the app of kinds that are given without a manifest.
    private static let unnamedApp = "provider"

    /// Kinds of the options.
    ///
    /// - Parameter samplePort: port of the sample provider in this process.
    /// - Throws: ``CommandFailure``, ``ManifestError``.
    func kinds(samplePort: Int?, sampleSecret: SigningSecret) throws -> [TrialKind] {
        var found: [TrialKind]
        if let samplePort {
            found = SampleApp.definitions(port: samplePort).flatMap { app in
                app.kinds.map { TrialKind(app: app.name, definition: $0, secrets: [sampleSecret.bytes]) }
            }
        } else if let manifest {
            let apps = try Manifest.read(path: manifest, environment: ProcessInfo.processInfo.environment)
            let own = try secret()
            if own == nil { apps.complainAboutMissingSecrets(remedy: "give --secret-file, or signingSecret in it") }
            found = apps.flatMap { app in
                app.definition.kinds.map { kind in
                    TrialKind(
                        app: app.definition.name, definition: kind,
                        secrets: (own ?? app.signingSecret).map { [$0.bytes] } ?? [])
                }
            }
        } else {
            let secrets = try secret().map { [$0.bytes] } ?? []
            if secrets.isEmpty { Terminal.complain("requests are not signed: no secret was given (--secret-file)") }
            return kind.map { name in
                TrialKind(
                    app: Self.unnamedApp,
                    definition: KindDefinition(name: name, providerURL: normalProvider ?? "", placeholder: nil),
                    secrets: secrets, isDeclared: false)
            }
        }
        if let url = normalProvider {
            for index in found.indices { found[index].definition.providerURL = url }
        }
        return try chosen(of: found)
    }

    private var normalProvider: String? { provider.flatMap { try? ProviderURL($0).description } }

    private func chosen(of kinds: [TrialKind]) throws(CommandFailure) -> [TrialKind] {
        let names = kinds.map(\.definition.name)
        for name in kind where !names.contains(name) {
            let hint = name.hint(among: names)
            throw CommandFailure(.failure, "there is no kind \(Text.quoted(name))\(hint)")
        }
        return kind.isEmpty ? kinds : kinds.filter { kind.contains($0.definition.name) }
    }

    private func secret() throws(CommandFailure) -> SigningSecret? {
        guard let secretFile else { return nil }
        return try SigningSecret(file: secretFile)
    }
}
