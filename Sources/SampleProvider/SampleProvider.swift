import Hummingbird
package import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
package import WidgetModel

/// A timeline provider for demonstrations and tests: a bank, Emoji Rangers and the weather, over HTTP.
///
/// Its answers depend on the seed, the requested content, the injected clock, and the number of earlier requests for
/// the same content.
package final class SampleProvider: Service, Sendable {
    /// Faults that are injected.
    package struct Faults: Sendable {
        /// Delay of every answer.
        let latency: Duration
        /// Share of requests that are answered with 503, from 0 to 1.
        let requestFailures: Double
        /// Share of timelines that are answered with an error of their own, from 0 to 1.
        let timelineFailures: Double

        package init(latency: Duration = .zero, requestFailures: Double = 0, timelineFailures: Double = 0) {
            self.latency = latency
            self.requestFailures = requestFailures
            self.timelineFailures = timelineFailures
        }
    }

    let seed: UInt64
    let faults: Faults
    /// Interval at which each content changes; nil: with every request.
    let changeInterval: Duration?
    let now: @Sendable () -> Timestamp
    let counters: SampleStatistics
    let revisions: RevisionCounters
    let verifiers: [SampleApp: WebhookVerifier]
    let loadAnswer: LoadAnswer
    /// Counts the timelines for load tests: no two have the same content.
    let loadNumber: Atomic<UInt64>

    private let address: BindAddress
    private let onListening: @Sendable (Int) -> Void
    private let logger: Logger

    /// Largest body of a request.
    static let maximumRequestBytes = 8 * 1_024 * 1_024

    /// - Parameters:
    ///   - seed: of the content.
    ///   - port: 0 lets the system choose.
    ///   - keys: apps whose requests must be signed, with the bytes of their secrets.
    ///   - changeInterval: interval at which each content changes; nil: every request for a timeline shows a change.
    ///   - maximumTracked: number of timelines that are counted individually.
    ///   - now: clock for the dates of the content.
    ///   - onListening: called with the port once the provider listens.
    package init(
        seed: UInt64, host: String = "127.0.0.1", port: Int = 0, keys: [SampleApp: [UInt8]] = [:],
        faults: Faults = Faults(), changeInterval: Duration? = nil, maximumTracked: Int = 100_000,
        now: @escaping @Sendable () -> Timestamp = WallClock.now,
        logger: Logger = Logger(label: "freshet.provider"), onListening: @escaping @Sendable (Int) -> Void = { _ in }
    ) {
        self.seed = seed
        self.faults = faults
        self.changeInterval = changeInterval
        self.now = now
        self.logger = logger
        self.onListening = onListening
        self.counters = SampleStatistics(maximumTracked: maximumTracked)
        self.revisions = RevisionCounters(bits: 20)
        self.verifiers = keys.mapValues(WebhookVerifier.init(key:))
        self.loadAnswer = LoadAnswer(now: now())
        self.loadNumber = Atomic(seed % 1_000_000 * 1_000)
        self.address = .hostname(host, port: port)
    }

    /// Serves until the task is cancelled or the service group shuts down.
    package func run() async throws {
        let application = Application(
            router: router(), configuration: ApplicationConfiguration(address: address, serverName: "freshet-provider"),
            onServerRunning: { [onListening] channel in
                guard let port = channel.localAddress?.port else { return }
                onListening(port)
            },
            logger: logger)
        try await application.run()
    }

    /// Requests so far.
    package func statistics() -> SampleStatistics.Snapshot {
        counters.snapshot
    }
}
