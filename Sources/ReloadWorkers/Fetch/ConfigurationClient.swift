// SPDX-License-Identifier: Apache-2.0

import JSON
package import Logging
import Metrics
import Synchronization
import Waiting
package import WidgetModel
package import WidgetStore

/// Requests options and defaults from providers, signed and protected like timelines. Each of the two endpoints has its
/// own breaker.
package final class ConfigurationClient: ConfigurationProvider {
    /// Time for which answers are cached.
    package static let lifetime = Duration.seconds(10)
    /// Time limit of requests for defaults, shorter than new widgets wait for them, so that hangs are noticed.
    package static let defaultsTimeout = Duration.milliseconds(1_500)

    private let fetcher: any ProviderFetching
    private let directory: DirectoryCache
    private let maximumResponseBytes: Int
    private let protection: ProviderProtection
    private let slots = RequestSlots()
    private let clock: WorkerClock
    private let answers = Mutex(AnswerCache())
    private let answered = Signal()
    private let directoryAge: Duration
    private let metrics: MetricRegistry

    package init(
        fetcher: any ProviderFetching, directory: DirectoryCache,
        configuration: WorkerConfiguration = WorkerConfiguration(), metrics: MetricRegistry = MetricRegistry(),
        clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.fetcher = fetcher
        self.directory = directory
        self.clock = WorkerClock(clock)
        maximumResponseBytes = configuration.maximumResponseBytes
        directoryAge = configuration.directoryAge
        protection = ProviderProtection(configuration.protectionRules, logger: logger)
        self.metrics = metrics
        metrics.providerQuestions.begin(
            [ProviderEndpoint.options, .defaults].map(\.rawValue),
            ["answered"] + Set(ProviderFailure.Reason.allCases.map(\.outcome)).sorted())
    }

    package func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ProviderFailure) -> IntentOptions {
        guard let intent = kind.intent, let parameter = intent.parameter(question.parameter),
            parameter.hasDynamicOptions
        else {
            throw ProviderFailure(.provider, "the parameter has no dynamic options")
        }
        let key = AnswerCache.Key(
            app: app, kind: kind, body: question.normalized(for: intent).encode(kind: kind.name))
        let began = clock.elapsed
        while true {
            let version = answered.version
            let now = clock.elapsed
            let (answer, isFirst) = answers.withLock { $0.find(key, askedAt: began, at: now) }
            if let answer { return try answer.get() }
            if isFirst { return try await ask(key, parameter) }
            do { try await answered.wait(past: version) } catch { throw .cancelled }
        }
    }

    package func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ProviderFailure) -> WidgetConfiguration {
        guard let intent = kind.intent else { return .empty }
        return try await fetch(
            .defaults, context.encode(kind: kind.name), of: kind, app: app,
            timeout: min(kind.timeout, Self.defaultsTimeout)
        ) { bytes throws(ModelError) in try intent.dynamicDefaults(bytes, family: context.family) }.answer
    }

    /// Requests the options for all waiting callers.
    private func ask(_ key: AnswerCache.Key, _ parameter: IntentParameter) async throws(ProviderFailure)
        -> IntentOptions
    {
        defer { answered.signal() }
        do throws(ProviderFailure) {
            let (options, size) = try await fetch(
                .options, key.body, of: key.kind, app: key.app,
                timeout: key.kind.timeout
            ) { bytes throws(ModelError) in
                do throws(JSONError) {
                    return try IntentOptions(bytes, of: parameter)
                } catch {
                    throw error.modelError
                }
            }
            keep(.success(options), size: size, of: key, for: Self.lifetime)
            return options
        } catch {
            // Waiting callers share a failure, except a cancellation of the first caller.
            let isOwn = Task.isCancelled
            keep(isOwn ? nil : .failure(error), of: key)
            throw error
        }
    }

    /// Ends a request; nil without an answer.
    private func keep(
        _ answer: Result<IntentOptions, ProviderFailure>?, size: Int = 0, of key: AnswerCache.Key,
        for lifetime: Duration = .zero
    ) {
        let now = clock.elapsed
        answers.withLock { $0.keep(answer, size: size, of: key, at: now, for: lifetime) }
    }

    // MARK: Requests

    private func fetch<Answer: Sendable>(
        _ endpoint: ProviderEndpoint, _ body: [UInt8], of kind: KindDefinition, app: String, timeout: Duration,
        read: ([UInt8]) throws(ModelError) -> Answer
    ) async throws(ProviderFailure) -> (answer: Answer, size: Int) {
        do throws(ProviderFailure) {
            let answer = try await request(endpoint, body, of: kind, app: app, timeout: timeout, read: read)
            metrics.providerQuestions(endpoint.rawValue, "answered").increment()
            return answer
        } catch {
            metrics.providerQuestions(endpoint.rawValue, error.reason.outcome).increment()
            throw error
        }
    }

    private func request<Answer: Sendable>(
        _ endpoint: ProviderEndpoint, _ body: [UInt8], of kind: KindDefinition, app: String, timeout: Duration,
        read: ([UInt8]) throws(ModelError) -> Answer
    ) async throws(ProviderFailure) -> (answer: Answer, size: Int) {
        let app = try await registered(app)
        let provider = ProviderKey(appID: app.id, app: app.name, url: kind.providerURL).at(endpoint)
        let ticket = try begin(provider)
        defer { slots.end(provider, .interactive) }
        let call = ProviderCall(
            url: kind.providerURL, endpoint: endpoint, secrets: app.signingSecrets, body: body, timeout: timeout,
            maximumResponseBytes: maximumResponseBytes)
        do {
            let bytes = try await fetcher.fetch(call)
            do throws(ModelError) {
                let answer = try read(bytes)
                protection.recordAnswer(ticket, timeout: timeout, at: clock.elapsed)
                return (answer, bytes.count)
            } catch {
                throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
            }
        } catch let failure as ProviderFailure where !Task.isCancelled {
            recordFailure(ticket, failure)
            var failure = failure
            failure.message = "the provider: \(failure.message)"
            throw failure
        } catch {
            protection.giveUp(ticket, at: clock.elapsed)
            throw ProviderFailure.cancelled
        }
    }

    private func registered(_ name: String) async throws(ProviderFailure) -> RegisteredApp {
        let known = (try? await directory.directory(maximumAge: directoryAge)) ?? directory.directory()
        guard let app = known.apps[name] else {
            throw ProviderFailure(.provider, "the app is not registered, or the database cannot be read")
        }
        return app
    }

    private func begin(_ provider: ProviderKey) throws(ProviderFailure) -> RequestTicket {
        let admission = protection.begin(
            provider, held: slots.held(by: provider), lane: .interactive, at: clock.elapsed)
        switch admission {
        case .rest(let time):
            throw ProviderFailure(
                .resting, "the provider has failed lately and is not asked for a while", retryAfter: time)
        case .go(let ticket):
            guard slots.begin(provider, .interactive, limit: protection.limit(of: provider)) else {
                protection.giveUp(ticket, at: clock.elapsed)
                throw ProviderFailure(
                    .resting, "as many requests are under way as the provider takes", retryAfter: .seconds(1))
            }
            return ticket
        }
    }

    private func recordFailure(_ ticket: RequestTicket, _ failure: ProviderFailure) {
        if RequestVerdict(failure) == .blamesContent, !ticket.isProbe {
            protection.recordFailureEverywhere(ticket, failure, at: clock.elapsed)
        } else {
            protection.recordFailure(ticket, failure, at: clock.elapsed)
        }
    }
}

extension ProviderFailure.Reason {
    /// Outcome of a question, as its metric names it.
    fileprivate var outcome: String {
        switch self {
        case .refused, .timeout, .resting: rawValue
        case .invalid, .tooLarge: "invalid"
        default: "failed"
        }
    }
}

extension ProviderFailure {
    fileprivate static let cancelled = ProviderFailure(.connection, "the request was cancelled")
}

/// Recent answers of options, and requests under way.
private struct AnswerCache {
    struct Key: Hashable {
        let app: String
        /// With its definition, so that a changed one causes a new request.
        let kind: KindDefinition
        /// Body of the request, which distinguishes users by bytes.
        let body: [UInt8]
    }

    private struct Known {
        let answer: Result<IntentOptions, ProviderFailure>
        let size: Int
        let at: Duration
        let until: Duration
    }

    private static let maximumCount = 1_000
    /// Most bytes of the cached answers.
    private static let maximumSize = 16 << 20

    private var known: [Key: Known] = [:]
    private var underWay: Set<Key> = []
    private var size = 0

    private mutating func remove(_ key: Key) {
        if let old = known.removeValue(forKey: key) { size -= old.size }
    }

    /// The answer, if it is cached or was given after the caller began to wait. Otherwise registers the request as
    /// under way; the first caller makes it.
    mutating func find(
        _ key: Key, askedAt began: Duration, at time: Duration
    ) -> (answer: Result<IntentOptions, ProviderFailure>?, isFirst: Bool) {
        if let known = known[key], known.until > time || known.at >= began { return (known.answer, false) }
        return (nil, underWay.insert(key).inserted)
    }

    /// Ends a request; nil without an answer.
    mutating func keep(
        _ answer: Result<IntentOptions, ProviderFailure>?, size: Int, of key: Key, at time: Duration,
        for lifetime: Duration
    ) {
        underWay.remove(key)
        remove(key)
        for (key, known) in known where time - known.at > ConfigurationClient.lifetime { remove(key) }
        guard let answer, size <= Self.maximumSize else { return }
        known[key] = Known(answer: answer, size: size, at: time, until: time + lifetime)
        self.size += size
        guard known.count > Self.maximumCount || self.size > Self.maximumSize else { return }
        // The oldest first, with room for some more.
        for (key, _) in known.sorted(by: { $0.value.at < $1.value.at }) {
            guard known.count > Self.maximumCount * 3 / 4 || self.size > Self.maximumSize * 3 / 4 else { return }
            remove(key)
        }
    }
}
