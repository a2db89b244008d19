import Logging
import Synchronization
import WidgetModel
import WidgetStore

/// Requests and timelines of a provider that may be started now.
struct ProviderAllowance: Hashable, Sendable {
    /// Requests at a time, those under way among them.
    var requests: Int
    /// Timelines in all; nil: as many as the requests hold.
    var timelines: Int?
}

/// Keeps the health of the providers that this process asks, so that a sick one costs only its own share. Each process
/// learns it by itself, and forgets it when it ends.
final class ProviderProtection: Sendable {
    /// Decision on a request that is about to be made.
    enum Admission: Sendable {
        case go(RequestTicket)
        case rest(Duration)
    }

    let rules: ProtectionRules
    private let providers = Mutex<[ProviderKey: ProviderHealth]>([:])
    private let statistics: WorkerStatistics
    private let logger: Logger

    init(_ rules: ProtectionRules, statistics: WorkerStatistics, logger: Logger) {
        self.rules = rules
        self.statistics = statistics
        self.logger = logger
    }

    var count: Int { providers.withLock { $0.count } }

    // MARK: Claiming

    /// The kinds that may be claimed, with batches no larger than their providers take; those whose providers rest are
    /// left out. Kinds that ask nobody, being retired, stay as they are.
    ///
    /// - Parameter allowances: set for the known providers of `due`.
    func permitted(
        _ targets: [Int32: ClaimTarget], due: some Sequence<Int32>,
        _ allowances: inout [ProviderKey: ProviderAllowance],
        at time: Duration
    ) -> [Int32: ClaimTarget] {
        var found: [ProviderKey: ProviderAllowance] = [:]
        let permitted = providers.withLock { providers in
            guard !providers.isEmpty else { return targets }
            var permitted = targets
            for kindID in Set(due) {
                guard var target = targets[kindID], target.asksProvider,
                    let health = providers[target.provider]
                else { continue }
                switch health.breaker.allowance(at: time) {
                case .anything:
                    found[target.provider] = ProviderAllowance(requests: health.limit.value)
                case .probe:
                    found[target.provider] = ProviderAllowance(requests: 1, timelines: rules.probeTimelines)
                case .nothing:
                    permitted[kindID] = nil
                    continue
                }
                target.maxBatch = health.sizes.size(atMost: target.maxBatch)
                permitted[kindID] = target
            }
            return permitted
        }
        allowances = found
        return permitted
    }

    /// Most timelines of a request that a provider is found to take.
    func sizeLimit(of provider: ProviderKey) -> Int {
        providers.withLock { $0[provider]?.sizes.size(atMost: .max) } ?? .max
    }

    func limit(of provider: ProviderKey) -> Int {
        providers.withLock { $0[provider]?.limit.value } ?? rules.initialConcurrency
    }

    /// Whether anything at all may be asked of a provider, such as what nothing depends on.
    func isWell(_ provider: ProviderKey, at time: Duration) -> Bool {
        providers.withLock { $0[provider]?.breaker.allowance(at: time) ?? .anything } == .anything
    }

    // MARK: Requests

    func begin(
        _ provider: ProviderKey, app: String, held: HeldSlots, lane: ReloadLane, at time: Duration
    ) -> Admission {
        update(provider, at: time) { health in
            if let ticket = health.begin(provider, app: app, held: held, lane: lane, at: time) { return .go(ticket) }
            guard case .nothing(let until?) = health.breaker.allowance(at: time) else {
                // Before the probe is back.
                return .rest(rules.openBackoff.base)
            }
            return .rest(until - time)
        }
    }

    func answered(_ ticket: RequestTicket, timeout: Duration, at time: Duration) {
        let changes = update(ticket.provider, at: time) { health in
            let isSlow = health.isSlow(time - ticket.startedAt, of: timeout)
            return health.ended(ticket, .answered(slowly: isSlow), jitter: 0, at: time)
        }
        tell(changes, ticket, nil, at: time)
    }

    func failed(_ ticket: RequestTicket, _ failure: ProviderFailure, at time: Duration) {
        let changes = update(ticket.provider, at: time) {
            $0.ended(ticket, RequestVerdict(failure), jitter: Double.random(in: 0...1), at: time)
        }
        tell(changes, ticket, failure, at: time)
    }

    /// Records that a failure blamed on the content was the provider's own.
    func failedEverywhere(_ ticket: RequestTicket, _ failure: ProviderFailure, at time: Duration) {
        let changes = update(ticket.provider, at: time) {
            $0.failedEverywhere(ticket, jitter: Double.random(in: 0...1), at: time)
        }
        tell(changes, ticket, failure, at: time)
    }

    func givenUp(_ ticket: RequestTicket, at time: Duration) {
        update(ticket.provider, at: time) { $0.givenUp(ticket, at: time) }
    }

    /// A request for fallback content failed. It counts only where it says something of the whole provider: these endpoints may
    /// be missing or slow while timelines are made all the same.
    func fallbackFailed(
        _ failure: ProviderFailure, of provider: ProviderKey, app: String, startedAt: Duration, at time: Duration
    ) {
        guard failure.reason != .timeout, case .overloaded = RequestVerdict(failure) else { return }
        let epoch = providers.withLock { $0[provider]?.breaker.epoch ?? 0 }
        failed(
            RequestTicket(
                provider: provider, app: app, epoch: epoch, startedAt: startedAt, isProbe: false, wasUsed: false),
            failure, at: time)
    }

    // MARK: Retries and sizes

    func firstAttempts(_ count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.retries.firstAttempts(count, at: time) }
    }

    /// Pays for retries; answers for how many of the timelines.
    func takeRetries(_ wanted: Int, of provider: ProviderKey, at time: Duration) -> Int {
        let granted = update(provider, at: time) { $0.retries.take(wanted, at: time) }
        if granted < wanted { statistics.count { $0.retriesRefused += wanted - granted } }
        return granted
    }

    /// How long retries that were refused should stay away.
    func retryWait(after refused: Int, of provider: ProviderKey, at time: Duration) -> Duration {
        update(provider, at: time) { $0.retries.wait(after: refused, at: time) }
    }

    func payBackRetries(_ count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.retries.payBack(count, at: time) }
    }

    /// - Parameter count: what is not too large, as far as is known.
    func batchWasTooLarge(fitting count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.sizes.wasTooLarge(fitting: count) }
        statistics.count { $0.batchesTooLarge += 1 }
    }

    func batchSucceeded(_ count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.sizes.succeeded(count) }
    }

    // MARK: Memory

    private func update<Value: Sendable>(
        _ provider: ProviderKey, at time: Duration, _ body: (inout ProviderHealth) -> Value
    ) -> Value {
        let (value, forgotten) = providers.withLock { providers in
            var forgotten: [ProviderKey] = []
            if providers[provider] == nil, providers.count >= rules.maximumProviders {
                forgotten = makeRoom(in: &providers)
            }
            var health = providers[provider] ?? ProviderHealth(rules, at: time)
            let value = body(&health)
            providers[provider] = health
            return (value, forgotten)
        }
        if !forgotten.isEmpty {
            statistics.count { counts in
                counts.openBreakers = counts.openBreakers.filter { open in
                    !forgotten.contains(ProviderKey(appID: open.appID, url: open.url))
                }
            }
        }
        return value
    }

    /// Forgets the quarter that was used least lately: whoever is forgotten begins anew. Answers those of them whose
    /// breakers were open.
    private func makeRoom(in providers: inout [ProviderKey: ProviderHealth]) -> [ProviderKey] {
        let oldest = providers.sorted { $0.value.usedAt < $1.value.usedAt }.prefix(max(1, rules.maximumProviders / 4))
        var open: [ProviderKey] = []
        for (key, health) in oldest {
            providers[key] = nil
            if health.breaker.state != .closed { open.append(key) }
        }
        return open
    }

    // MARK: Telling

    private func tell(
        _ changes: [ProviderHealth.Change], _ ticket: RequestTicket, _ failure: ProviderFailure?, at time: Duration
    ) {
        for change in changes {
            let breaker = OpenBreaker(
                appID: ticket.provider.appID, app: ticket.app, url: ticket.provider.url)
            var metadata: Logger.Metadata = ["app": "\(ticket.app)", "provider": "\(ticket.provider.url)"]
            if let failure {
                metadata["reason"] = "\(failure.reason)"
                metadata["message"] = "\(failure.message)"
            }
            switch change {
            case .breaker(.opened(let until, let wasClosed)):
                statistics.count { counts in
                    counts.breakersOpened += 1
                    if wasClosed { counts.openBreakers.insert(breaker) }
                }
                metadata["until"] = "in \((until - time).wholeMilliseconds) ms"
                if wasClosed {
                    logger.warning("a provider fails and is left alone for a while", metadata: metadata)
                } else {
                    logger.info("a provider fails still", metadata: metadata)
                }
            case .breaker(.closed):
                statistics.count { _ = $0.openBreakers.remove(breaker) }
                logger.notice("a provider is well again", metadata: metadata)
            case .shrunk(let limit):
                statistics.count { $0.limitsShrunk += 1 }
                metadata["limit"] = "\(limit)"
                logger.debug("a provider is asked less at a time", metadata: metadata)
            }
        }
    }
}
