package import WidgetModel

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
