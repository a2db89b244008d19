// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Metrics
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// Quotas of bearers and apps within this process. Responses state them (`RateLimit-Policy`, `RateLimit`).
final class Quotas: Sendable {
    enum Name: String, CaseIterable, Sendable {
        /// Requests of one token.
        case requests
        /// Events that an app publishes, and reload requests among them.
        case events, reloads
        /// Open polls and streams of an app.
        case connections
        /// Waiting dead letters of an app, except for those that another party wrote under its name. An app beyond the
        /// quota cannot publish.
        case deadLetters = "dead-letters"
    }

    /// Time for which a count of dead letters is used.
    private static let countAge = Duration.seconds(10)

    private let limiters: [(name: Name, limiter: RateLimiter<ContentHash>)]
    private let changes: TimelineChanges
    private let pool: PostgresPool
    private let deadLetters: Int?
    private let counts = Mutex(RecentlyUsed<String, (count: Int, at: ContinuousClock.Instant)>(limit: 10_000))
    private let metrics: MetricRegistry
    private let policy: String

    init(
        requests: Int, burst: Int, events: Int, reloads: Int, deadLetters: Int, changes: TimelineChanges,
        pool: PostgresPool,
        metrics: MetricRegistry
    ) {
        let limits = [
            (name: Name.requests, rate: Double(requests), burst: burst),
            (.events, Double(events) / 60, events),
            (.reloads, Double(reloads) / 60, reloads),
        ]
        limiters = limits.filter { $0.rate > 0 }.map { ($0.name, RateLimiter(rate: $0.rate, burst: $0.burst)) }
        self.changes = changes
        self.pool = pool
        self.deadLetters = deadLetters > 0 ? deadLetters : nil
        self.metrics = metrics
        metrics.apiRefusals.begin(Name.allCases.map(\.rawValue))
        var policies = limiters.map { name, limiter in
            #""\#(name.rawValue)";q=\#(Int(limiter.burst));w=\#(Int((limiter.burst / limiter.rate).rounded(.up)))"#
        }
        policies.append(#""connections";q=\#(changes.placesOfApp);qu="concurrent-requests""#)
        if deadLetters > 0 { policies.append(#""dead-letters";q=\#(deadLetters);qu="dead-letters""#) }
        policy = policies.joined(separator: ", ")
    }

    private static func subject(_ name: Name, _ principal: Principal) -> ContentHash {
        name == .requests ? principal.fingerprint : ContentHash(of: Array(principal.app.utf8))
    }

    /// Takes from a quota by rate.
    ///
    /// - Parameter least: number that the quota must have left.
    func take(_ name: Name, _ count: Int = 1, least: Int = 1, for principal: Principal) throws(Problem) {
        guard count > 0, let limiter = limiters.first(where: { $0.name == name })?.limiter,
            let wait = limiter.take(Self.subject(name, principal), count, least: least)
        else { return }
        throw refusal(name, wait)
    }

    /// Takes events, and the reloads among them, from both quotas or from none.
    func takeEvents(_ events: Int, reloads: Int, for principal: Principal) throws(Problem) {
        try take(.events, events, for: principal)
        do throws(Problem) {
            try take(.reloads, reloads, for: principal)
        } catch {
            let limiter = limiters.first { $0.name == .events }?.limiter
            _ = limiter?.take(Self.subject(.events, principal), -events, least: .min)
            throw error
        }
    }

    /// Counts a refusal.
    func refusal(_ name: Name, _ wait: Duration) -> Problem {
        metrics.apiRefusals(name.rawValue).increment()
        return .quotaExceeded(name, wait)
    }

    /// Checks the app's quota of dead letters. While one request counts them again, others use the old count.
    func checkDeadLetters(of app: String) async throws {
        guard let deadLetters else { return }
        var (count, isOld) = counts.withLock { counts in
            let known = counts[app]
            if let known, known.at.duration(to: .now) < Self.countAge { return (known.count, false) }
            counts[app] = (known?.count ?? 0, .now)
            return (known?.count ?? 0, true)
        }
        if isOld {
            let filter = DeadLetterFilter(
                owner: .app(app), causes: DeadLetterCause.allCases.filter { $0 != .notAllowed })
            count = try await pool.query(Statements.countDeadLetters(filter, limit: deadLetters + 1)).first ?? 0
            counts.withLock { [count] in $0[app] = (count, .now) }
        }
        if count > deadLetters { throw refusal(.deadLetters, Self.countAge) }
    }

    /// The headers with all quotas and their rests.
    func headers(for principal: Principal) -> HTTPFields {
        var states = limiters.map { name, limiter in
            let (remaining, _, reset) = limiter.state(Self.subject(name, principal))
            return #""\#(name.rawValue)";r=\#(remaining);t=\#(reset.seconds(roundedUp: 0))"#
        }
        states.append(#""connections";r=\#(max(0, changes.placesOfApp - changes.places(of: principal.app)))"#)
        if let deadLetters, let known = counts.withLock({ $0.peek(principal.app) }) {
            states.append(#""dead-letters";r=\#(max(0, deadLetters - known.count))"#)
        }
        return [.rateLimitPolicy: policy, .rateLimit: states.joined(separator: ", ")]
    }
}

extension Duration {
    /// Whole seconds, rounded up.
    func seconds(roundedUp least: Int64) -> Int64 {
        max(least, components.seconds + (components.attoseconds > 0 ? 1 : 0))
    }
}

extension HTTPField.Name {
    static let rateLimit = Self("RateLimit")!
    static let rateLimitPolicy = Self("RateLimit-Policy")!
}
