// SPDX-License-Identifier: Apache-2.0

import JSON
import Logging
import Metrics
import Synchronization
package import Waiting
import WidgetModel
import WidgetStore

/// A kind as the scheduler sees it.
struct ClaimTarget: Hashable, Sendable {
    let appID: Int32
    let provider: ProviderKey
    /// The kind's limit, or the size that the provider was found to accept.
    var maxBatch: Int
    /// False for retired kinds, whose timelines are collected without a request.
    var asksProvider = true
}

extension ClaimTarget {
    init(_ kind: RegisteredKind) {
        self.init(
            appID: kind.appID, provider: ProviderKey(kind), maxBatch: max(1, kind.definition.maxBatch),
            asksProvider: !kind.isRetired)
    }
}

/// Provider of a kind's timelines: an endpoint of an app. Two apps at one URL are two providers.
struct ProviderKey: Hashable, Sendable {
    let appID: Int32
    /// Name of the app.
    let app: String
    let url: String
}

extension ProviderKey {
    init(_ kind: RegisteredKind) {
        self.init(appID: kind.appID, app: kind.app, url: kind.definition.providerURL)
    }

    /// An endpoint of the provider that fails, or is missing, by itself.
    func at(_ endpoint: ProviderEndpoint) -> ProviderKey {
        ProviderKey(appID: appID, app: app, url: url + endpoint.path)
    }
}

/// Requests and timelines that a provider may get now.
struct ProviderAllowance: Hashable, Sendable {
    /// Most concurrent requests.
    var requests: Int
    /// Most timelines; nil without a limit.
    var timelines: Int?
}

/// Health of the providers, so that a failing one costs only its own share. Each process learns it by itself.
final class ProviderProtection: Sendable {
    /// Decision on a request.
    enum Admission: Sendable {
        case go(RequestTicket)
        case rest(Duration)
    }

    let rules: ProtectionRules
    private let providers = Mutex<[ProviderKey: ProviderHealth]>([:])
    /// Signalled when a breaker has changed.
    let changes = Signal()
    /// Providers with breakers that have changed since ``takeChanges(limit:at:)``.
    private let changed = Mutex<Set<ProviderKey>>([])
    /// Nil: the providers are not among the metrics.
    private let metrics: MetricRegistry?
    private let logger: Logger

    init(_ rules: ProtectionRules, metrics: MetricRegistry? = nil, logger: Logger) {
        (self.rules, self.metrics, self.logger) = (rules, metrics, logger)
        metrics?.breakersOpen.set(0)
    }

    /// Latest requests to the providers of an app, by URL.
    func records(of app: String) -> [String: ProviderRecord] {
        let records = providers.withLock { providers in
            providers.filter { Text.equal($0.key.app, app) }.map { ($0.key.url, $0.value.record) }
        }
        return Dictionary(records.filter { $1.answeredAt != nil || $1.failedAt != nil }) { $1 }
    }

    /// Time for which the error of single timelines counts as one of the provider.
    private static let itemErrorAge = Duration.seconds(600)

    /// Providers whose latest request failed, or whose answers had errors of single timelines a short while ago; the
    /// latest ones first, at most ``ReportedFailure/most``.
    func failures(at now: Timestamp = .now()) -> [ReportedFailure] {
        let records = providers.withLock { $0.map { ($0.key, $0.value.record) } }
        let found = records.compactMap { key, record -> ReportedFailure? in
            if let failedAt = record.failedAt, failedAt > record.answeredAt ?? .distantPast {
                return ReportedFailure(
                    app: key.app, provider: key.url, message: record.failure ?? "the request failed", at: failedAt)
            }
            guard let failedAt = record.itemFailedAt, now - failedAt < Self.itemErrorAge else { return nil }
            return ReportedFailure(app: key.app, provider: key.url, message: record.itemFailure ?? "", at: failedAt)
        }
        return Array(found.sorted { $0.at > $1.at }.prefix(ReportedFailure.most))
    }

    // MARK: Breakers

    /// Takes breakers that have changed since they were last taken, with their states.
    func takeChanges(limit: Int, at time: Duration) -> [BreakerState] {
        let keys = changed.withLock { changed in
            let taken = changed.prefix(limit)
            changed.subtract(taken)
            return Array(taken)
        }
        return providers.withLock { providers in
            keys.map { key in
                let health = providers[key]
                return BreakerState(
                    app: key.app, appID: key.appID, provider: key.url, rest: health?.breaker.rest(at: time),
                    message: health?.latest.failure ?? "")
            }
        }
    }

    /// Notes breakers as changed that were taken, and could not be stored.
    func putBack(_ states: [BreakerState]) {
        changed.withLock { changed in
            changed.formUnion(states.map { ProviderKey(appID: $0.appID, app: $0.app, url: $0.provider) })
        }
    }

    private func noteChange(of provider: ProviderKey) {
        _ = changed.withLock { $0.insert(provider) }
        changes.signal()
    }

    // MARK: Claiming

    /// The kinds that may be claimed, with the batch sizes of their providers, without those of open breakers, and the
    /// allowances of their known providers. Retired kinds, which need no provider, are unchanged.
    func permitted(
        _ targets: [Int32: ClaimTarget], at time: Duration
    ) -> (targets: [Int32: ClaimTarget], allowances: [ProviderKey: ProviderAllowance]) {
        providers.withLock { providers in
            var (permitted, allowances) = (targets, [ProviderKey: ProviderAllowance]())
            for (kindID, target) in targets where target.asksProvider {
                guard let health = providers[target.provider] else { continue }
                switch health.breaker.allowance(at: time) {
                case .anything:
                    allowances[target.provider] = ProviderAllowance(requests: health.limit.value)
                case .probe:
                    allowances[target.provider] = ProviderAllowance(requests: 1, timelines: rules.probeTimelines)
                case .nothing:
                    permitted[kindID] = nil
                    continue
                }
                permitted[kindID]?.maxBatch = health.sizes.size(atMost: target.maxBatch)
            }
            return (permitted, allowances)
        }
    }

    /// Largest batch that a provider accepts.
    func sizeLimit(of provider: ProviderKey) -> Int {
        read(provider) { $0.sizes.size(atMost: .max) } ?? .max
    }

    func limit(of provider: ProviderKey) -> Int {
        read(provider) { $0.limit.value } ?? rules.initialConcurrency
    }

    /// Whether a provider may get requests without priority.
    func isAvailable(_ provider: ProviderKey, at time: Duration) -> Bool {
        read(provider) { $0.breaker.allowance(at: time) } ?? .anything == .anything
    }

    // MARK: Requests

    func begin(
        _ provider: ProviderKey, held: HeldSlots, lane: ReloadLane, at time: Duration
    ) -> Admission {
        update(provider, at: time) { health in
            if let ticket = health.begin(provider, held: held, lane: lane, at: time) { return .go(ticket) }
            guard case .nothing(let until?) = health.breaker.allowance(at: time) else {
                // Until the probe's outcome.
                return .rest(rules.openBackoff.base)
            }
            return .rest(until - time)
        }
    }

    /// Notes an answered request.
    ///
    /// - Parameter count: number of its timelines, for the batch size.
    func recordAnswer(_ ticket: RequestTicket, count: Int = 0, timeout: Duration, at time: Duration) {
        let changes = update(ticket.provider, at: time) { health in
            let isSlow = health.isSlow(time - ticket.startedAt, of: timeout)
            (health.latest.answeredAt, health.latest.latency) = (Timestamp.now(), time - ticket.startedAt)
            health.sizes.recordSuccess(of: count)
            return health.end(ticket, .answered(slowly: isSlow), jitter: 0, at: time)
        }
        report(changes, ticket, nil, at: time)
    }

    func recordFailure(_ ticket: RequestTicket, _ failure: ProviderFailure, at time: Duration) {
        let message = Self.words(for: failure)
        let changes = update(ticket.provider, at: time) { health in
            (health.latest.failedAt, health.latest.failure) = (Timestamp.now(), message)
            return health.end(ticket, RequestVerdict(failure), jitter: Double.random(in: 0...1), at: time)
        }
        report(changes, ticket, failure, at: time)
    }

    /// Notes the error of a single timeline in an answer, for operators.
    func recordItemFailure(_ failure: ProviderFailure, of provider: ProviderKey, at time: Duration) {
        let message = Self.words(for: failure)
        update(provider, at: time) { health in
            (health.latest.itemFailedAt, health.latest.itemFailure) = (Timestamp.now(), message)
        }
    }

    /// The failure's message, with the reason where the message does not say it.
    private static func words(for failure: ProviderFailure) -> String {
        let message = Text.printable(failure.message, maximum: 300)
        return switch failure.reason {
        case .connection, .timeout, .provider, .status, .unresolved: message
        default: "\(failure.reason.rawValue): \(message)"
        }
    }

    /// Notes that a failure blamed on the content was the provider's own.
    func recordFailureEverywhere(_ ticket: RequestTicket, _ failure: ProviderFailure, at time: Duration) {
        let changes = update(ticket.provider, at: time) {
            $0.recordFailureEverywhere(ticket, jitter: Double.random(in: 0...1), at: time)
        }
        report(changes, ticket, failure, at: time)
    }

    func giveUp(_ ticket: RequestTicket, at time: Duration) {
        update(ticket.provider, at: time) { $0.giveUp(ticket, at: time) }
    }

    /// Notes a failed request for fallback content. It counts only if the whole provider is overloaded: these endpoints
    /// may be missing or slow beside working timelines.
    func recordFallbackFailure(
        _ failure: ProviderFailure, of provider: ProviderKey, startedAt: Duration, at time: Duration
    ) {
        guard failure.reason != .timeout, case .overloaded = RequestVerdict(failure) else { return }
        let epoch = read(provider) { $0.breaker.epoch } ?? 0
        recordFailure(
            RequestTicket(
                provider: provider, epoch: epoch, startedAt: startedAt, isProbe: false, wasUsed: false),
            failure, at: time)
    }

    // MARK: Retries and sizes

    func recordFirstAttempts(_ count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.retries.recordFirstAttempts(count, at: time) }
    }

    /// Pays for retries, and returns the number of granted timelines.
    func takeRetries(_ wanted: Int, of provider: ProviderKey, at time: Duration) -> Int {
        let granted = update(provider, at: time) { $0.retries.take(wanted, at: time) }
        if granted < wanted { metrics?.retriesRefused.increment(by: wanted - granted) }
        return granted
    }

    /// Delay of refused retries.
    func retryWait(after refused: Int, of provider: ProviderKey, at time: Duration) -> Duration {
        update(provider, at: time) { $0.retries.wait(after: refused, at: time) }
    }

    func payBackRetries(_ count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.retries.payBack(count, at: time) }
    }

    /// Notes a batch that was too large.
    ///
    /// - Parameter count: size that fits, as far as known.
    func recordOversizedBatch(fitting count: Int, of provider: ProviderKey, at time: Duration) {
        update(provider, at: time) { $0.sizes.recordRefusal(fitting: count) }
    }

    // MARK: Memory

    /// Reads the health of a provider in place; nil if it is not known.
    private func read<Value: Sendable>(_ provider: ProviderKey, _ body: (borrowing ProviderHealth) -> Value) -> Value? {
        providers.withLock { providers in
            providers.index(forKey: provider).map { body(providers.values[$0]) }
        }
    }

    private func update<Value: Sendable>(
        _ provider: ProviderKey, at time: Duration, _ body: (inout ProviderHealth) -> Value
    ) -> Value {
        let (value, forgotten) = providers.withLock { providers in
            var forgotten: [ProviderKey] = []
            if providers[provider] == nil, providers.count >= rules.maximumProviders {
                forgotten = makeRoom(in: &providers)
            }
            // In place: a copy of the health would copy its sums at each change.
            return (body(&providers[provider, default: ProviderHealth(rules, at: time)]), forgotten)
        }
        for provider in forgotten {
            setBreaker(of: provider, isOpen: false)
            noteChange(of: provider)
        }
        return value
    }

    /// Forgets the least recently used quarter. Returns those with open breakers.
    private func makeRoom(in providers: inout [ProviderKey: ProviderHealth]) -> [ProviderKey] {
        let oldest = providers.sorted { $0.value.usedAt < $1.value.usedAt }.prefix(max(1, rules.maximumProviders / 4))
        var open: [ProviderKey] = []
        for (key, health) in oldest {
            providers[key] = nil
            if health.breaker.state != .closed { open.append(key) }
        }
        return open
    }

    // MARK: Reports

    private func setBreaker(of provider: ProviderKey, isOpen: Bool) {
        metrics?.breakersOpen().increment(by: isOpen ? 1.0 : -1.0)
        metrics?.breakerState(provider.app, provider.url).set(isOpen ? 1 : 0)
    }

    private func report(
        _ changes: [ProviderHealth.Change], _ ticket: RequestTicket, _ failure: ProviderFailure?, at time: Duration
    ) {
        for change in changes {
            var metadata: Logger.Metadata = ["app": "\(ticket.provider.app)", "provider": "\(ticket.provider.url)"]
            if let failure {
                metadata["reason"] = "\(failure.reason)"
                metadata["message"] = "\(failure.message)"
            }
            switch change {
            case .opened(let until, let wasClosed):
                metrics?.breakersOpened.increment()
                if wasClosed { setBreaker(of: ticket.provider, isOpen: true) }
                metadata["until"] = "in \((until - time).wholeMilliseconds) ms"
                if wasClosed {
                    logger.warning("a provider fails and gets no requests for a while", metadata: metadata)
                } else {
                    logger.info("a provider still fails", metadata: metadata)
                }
                noteChange(of: ticket.provider)
            case .delayed:
                noteChange(of: ticket.provider)
            case .closed:
                setBreaker(of: ticket.provider, isOpen: false)
                noteChange(of: ticket.provider)
                logger.notice("a provider has recovered", metadata: metadata)
            case .shrunk(let limit):
                metrics?.limitsShrunk.increment()
                metadata["limit"] = "\(limit)"
                logger.debug("a provider gets fewer concurrent requests", metadata: metadata)
            }
        }
    }
}

/// Treatment of slow, overloaded and broken providers. The defaults suit any installation.
package struct ProtectionRules: Hashable, Sendable {
    /// Concurrent requests to an unknown provider.
    package var initialConcurrency = 8
    /// Most concurrent requests to a provider.
    package var maximumConcurrency = 32
    /// Share of the timeout beyond which an answer reduces the limit like a failure.
    package var slowShare = 0.5

    /// Failures of whole requests in a row that open the breaker.
    package var consecutiveFailures = 5
    /// Share of failed requests in ``failureWindow``, of at least ``failureSample``, that opens the breaker.
    package var failureShare = 0.5
    package var failureSample = 20
    package var failureWindow = Duration.seconds(10)
    /// Time for which the breaker stays open, between half and all of the bound.
    package var openBackoff = Backoff(base: .seconds(1), cap: .seconds(60))
    /// Upper limit of a pause that a provider requests with `Retry-After`.
    package var maximumRest = Duration.seconds(86_400)
    /// Timelines of a probe.
    package var probeTimelines = 1

    /// Failed retries as a share of first attempts, in timelines over ``retryWindow``.
    package var retryShare = 0.2
    package var retryWindow = Duration.seconds(10)
    /// Number of retries that may always fail, so that a quiet provider's batch can be bisected.
    package var retryFloor = 100

    /// Most requests of a bisection: enough for four poisonous timelines in a hundred.
    package var maximumBisectRequests = 28
    /// Most known providers.
    package var maximumProviders = 10_000

    package init() {}
}

/// Back-off of providers' optional endpoints, snapshots and placeholders, that are missing or have failed. Each process
/// learns it by itself.
final class RestingEndpoints: Sendable {
    /// By provider, with the URL of the endpoint: the end on the worker's clock, and the number of failures.
    private let rests = Mutex<[ProviderKey: (end: Duration, failures: Int)]>([:])
    private let capacity: Int
    /// Back-off after failures in a row.
    private static let failureRest = Backoff(base: .seconds(1), cap: .seconds(600))

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    func isResting(_ endpoint: ProviderEndpoint, of provider: ProviderKey, at time: Duration) -> Bool {
        rests.withLock { rests in
            guard let rest = rests[provider.at(endpoint)] else { return false }
            return time < rest.end
        }
    }

    func recordSuccess(_ endpoint: ProviderEndpoint, of provider: ProviderKey) {
        rests.withLock { $0[provider.at(endpoint)] = nil }
    }

    /// Notes a failure: the endpoint rests for the back-off, for the provider's `Retry-After`, or for `absence` if the
    /// provider does not have it.
    func recordFailure(
        _ failure: ProviderFailure, _ endpoint: ProviderEndpoint, of provider: ProviderKey, at time: Duration,
        absence: Duration
    ) {
        rests.withLock { rests in
            let key = provider.at(endpoint)
            let failures = (rests[key]?.failures ?? 0) + 1
            let rest =
                failure.saysAbsent
                ? absence : max(Self.failureRest.bound(attempt: failures), min(failure.retryAfter ?? .zero, absence))
            if rests[key] == nil, rests.count >= capacity { Self.makeRoom(in: &rests, at: time) }
            rests[key] = (time + rest, failures)
        }
    }

    private static func makeRoom(in rests: inout [ProviderKey: (end: Duration, failures: Int)], at time: Duration) {
        rests = rests.filter { time < $0.value.end }
        if let first = rests.min(by: { $0.value.end < $1.value.end })?.key { rests[first] = nil }
    }
}
