import JSON
package import Logging
import Metrics
import Synchronization
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
    private let answers = AnswerCache()
    private let answered = WorkSignal()
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
            ["answered"] + ConfigurationFailure.Reason.allCases.map(\.rawValue))
    }

    package func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> IntentOptions {
        guard let intent = kind.intent, let parameter = intent.parameter(question.parameter),
            parameter.hasDynamicOptions
        else {
            throw ConfigurationFailure(.failed, "the parameter has no dynamic options")
        }
        let key = AnswerCache.Key(
            app: app, kind: kind, body: question.normalized(for: intent).encode(kind: kind.name))
        let began = clock.elapsed
        while true {
            let mark = answered.mark(.timelines)
            switch answers.find(key, askedAt: began, at: clock.elapsed) {
            case .known(let answer): return try answer.get()
            case .underWay:
                do { try await answered.wait(past: mark) } catch { throw .cancelled }
            case .absent:
                return try await ask(key, parameter)
            }
        }
    }

    package func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ConfigurationFailure) -> WidgetConfiguration {
        guard let intent = kind.intent else { return .empty }
        return try await fetch(
            .defaults, context.encode(kind: kind.name), of: kind, app: app,
            timeout: min(kind.timeout, Self.defaultsTimeout)
        ) { bytes throws(ModelError) in try intent.dynamicDefaults(bytes, family: context.family) }.answer
    }

    /// Requests the options for all waiting callers.
    private func ask(_ key: AnswerCache.Key, _ parameter: IntentParameter) async throws(ConfigurationFailure)
        -> IntentOptions
    {
        defer { answered.signal(.timelines) }
        do throws(ConfigurationFailure) {
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
            answers.keep(.success(options), size: size, of: key, at: clock.elapsed, for: Self.lifetime)
            return options
        } catch {
            // Waiting callers share a failure, except a cancellation of the first caller.
            let isOwn = Task.isCancelled
            answers.keep(isOwn ? nil : .failure(error), size: 0, of: key, at: clock.elapsed, for: .zero)
            throw error
        }
    }

    // MARK: Requests

    private func fetch<Answer: Sendable>(
        _ endpoint: ProviderEndpoint, _ body: [UInt8], of kind: KindDefinition, app: String, timeout: Duration,
        read: ([UInt8]) throws(ModelError) -> Answer
    ) async throws(ConfigurationFailure) -> (answer: Answer, size: Int) {
        do throws(ConfigurationFailure) {
            let answer = try await request(endpoint, body, of: kind, app: app, timeout: timeout, read: read)
            metrics.providerQuestions(endpoint.rawValue, "answered").increment()
            return answer
        } catch {
            metrics.providerQuestions(endpoint.rawValue, error.reason.rawValue).increment()
            throw error
        }
    }

    private func request<Answer: Sendable>(
        _ endpoint: ProviderEndpoint, _ body: [UInt8], of kind: KindDefinition, app: String, timeout: Duration,
        read: ([UInt8]) throws(ModelError) -> Answer
    ) async throws(ConfigurationFailure) -> (answer: Answer, size: Int) {
        let app = try await registered(app)
        let provider = ProviderKey(appID: app.id, app: app.name, url: kind.providerURL + endpoint.path)
        let ticket = try begin(provider)
        defer { slots.end(provider, .interactive) }
        let call = ProviderCall(
            url: kind.providerURL, endpoint: endpoint, secrets: app.signingSecrets, body: body, timeout: timeout,
            maximumResponseBytes: maximumResponseBytes)
        do {
            let bytes = try await fetcher.fetch(call)
            do throws(ModelError) {
                let answer = try read(bytes)
                protection.answered(ticket, timeout: timeout, at: clock.elapsed)
                return (answer, bytes.count)
            } catch {
                throw ProviderFailure(.invalid, "the answer is not what the contract says: \(error)")
            }
        } catch let failure as ProviderFailure where !Task.isCancelled {
            failed(ticket, failure)
            throw ConfigurationFailure(failure)
        } catch {
            protection.givenUp(ticket, at: clock.elapsed)
            throw ConfigurationFailure.cancelled
        }
    }

    private func registered(_ name: String) async throws(ConfigurationFailure) -> RegisteredApp {
        let known = (try? await directory.directory(maximumAge: directoryAge)) ?? directory.directory()
        guard let app = known.apps[name] else {
            throw ConfigurationFailure(.failed, "the app is not registered, or the database cannot be read")
        }
        return app
    }

    private func begin(_ provider: ProviderKey) throws(ConfigurationFailure) -> RequestTicket {
        let admission = protection.begin(
            provider, held: slots.held(by: provider), lane: .interactive, at: clock.elapsed)
        switch admission {
        case .rest(let time):
            throw ConfigurationFailure(
                .resting, "the provider has failed lately and is not asked for a while", retryAfter: time)
        case .go(let ticket):
            guard slots.begin(provider, .interactive, limit: protection.limit(of: provider)) else {
                protection.givenUp(ticket, at: clock.elapsed)
                throw ConfigurationFailure(
                    .resting, "as many requests are under way as the provider takes", retryAfter: .seconds(1))
            }
            return ticket
        }
    }

    private func failed(_ ticket: RequestTicket, _ failure: ProviderFailure) {
        if RequestVerdict(failure) == .blamesContent, !ticket.isProbe {
            protection.failedEverywhere(ticket, failure, at: clock.elapsed)
        } else {
            protection.failed(ticket, failure, at: clock.elapsed)
        }
    }
}

extension ConfigurationFailure {
    static let cancelled = ConfigurationFailure(.failed, "the request was cancelled")

    init(_ failure: ProviderFailure) {
        let reason: Reason =
            switch failure.reason {
            case .refused: .refused
            case .timeout: .timeout
            case .invalid, .tooLarge: .invalid
            default: .failed
            }
        self.init(reason, "the provider: \(failure.message)", retryAfter: failure.retryAfter)
    }
}

/// Recent answers of options, and requests under way.
private final class AnswerCache: Sendable {
    struct Key: Hashable {
        let app: String
        /// With its definition, so that a changed one causes a new request.
        let kind: KindDefinition
        /// Body of the request, which distinguishes users by bytes.
        let body: [UInt8]
    }

    enum State {
        case known(Result<IntentOptions, ConfigurationFailure>)
        case underWay
        case absent
    }

    private struct Known {
        let answer: Result<IntentOptions, ConfigurationFailure>
        let size: Int
        let at: Duration
        let until: Duration
    }

    private struct Contents {
        var known: [Key: Known] = [:]
        var underWay: Set<Key> = []
        var size = 0

        mutating func remove(_ key: Key) {
            if let old = known.removeValue(forKey: key) { size -= old.size }
        }
    }

    private static let maximumCount = 1_000
    /// Most bytes of the cached answers.
    private static let maximumSize = 16 << 20
    private let contents = Mutex(Contents())

    /// The answer, if it is cached or was given after the caller began to wait. Otherwise registers the request as
    /// under way; the caller makes it.
    func find(_ key: Key, askedAt began: Duration, at time: Duration) -> State {
        contents.withLock { contents in
            if let known = contents.known[key], known.until > time || known.at >= began { return .known(known.answer) }
            return contents.underWay.insert(key).inserted ? .absent : .underWay
        }
    }

    /// Ends a request; nil without an answer.
    func keep(
        _ answer: Result<IntentOptions, ConfigurationFailure>?, size: Int, of key: Key, at time: Duration,
        for lifetime: Duration
    ) {
        contents.withLock { contents in
            contents.underWay.remove(key)
            contents.remove(key)
            for (key, known) in contents.known where time - known.at > ConfigurationClient.lifetime {
                contents.remove(key)
            }
            guard let answer, size <= Self.maximumSize else { return }
            contents.known[key] = Known(answer: answer, size: size, at: time, until: time + lifetime)
            contents.size += size
            guard contents.known.count > Self.maximumCount || contents.size > Self.maximumSize else { return }
            // The oldest first, with room for some more.
            for (key, _) in contents.known.sorted(by: { $0.value.at < $1.value.at }) {
                guard contents.known.count > Self.maximumCount * 3 / 4 || contents.size > Self.maximumSize * 3 / 4
                else {
                    return
                }
                contents.remove(key)
            }
        }
    }
}
