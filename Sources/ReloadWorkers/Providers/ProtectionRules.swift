package import WidgetModel

/// How a worker treats providers that are slow, overloaded, or broken. The defaults suit any installation.
package struct ProtectionRules: Hashable, Sendable {
    /// Concurrent requests to a provider that was not asked before.
    package var initialConcurrency = 8
    /// Most concurrent requests to a provider.
    package var maximumConcurrency = 32
    /// An answer that takes more than this part of its timeout shrinks the limit, as if it had not come.
    package var slowShare = 0.5

    /// Whole requests that fail, one after the other, until the breaker opens.
    package var consecutiveFailures = 5
    /// Or: the part of the whole requests of ``failureWindow`` that fail, when there are at least ``failureSample``.
    package var failureShare = 0.5
    package var failureSample = 20
    package var failureWindow = Duration.seconds(10)
    /// How long the breaker stays open; between half of the bound and all of it.
    package var openBackoff = Backoff(base: .seconds(1), cap: .seconds(60))
    /// The longest rest that a provider may ask for with `Retry-After`.
    package var maximumRest = Duration.seconds(86_400)
    /// Timelines in the request that finds out whether the provider is well again.
    package var probeTimelines = 1

    /// Retries that fail may be this part of first attempts, in timelines over ``retryWindow``.
    package var retryShare = 0.2
    package var retryWindow = Duration.seconds(10)
    /// As many may always fail, so that a quiet provider's timelines are retried too: a batch of the usual size can be
    /// bisected.
    package var retryFloor = 100

    /// The most requests to find what is wrong in a batch: enough for four poisonous timelines in a hundred.
    package var maximumBisectRequests = 28
    /// The most providers that are remembered.
    package var maximumProviders = 10_000

    package init() {}
}
