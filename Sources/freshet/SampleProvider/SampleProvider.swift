import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
import WidgetModel

/// A timeline provider for demonstrations and tests: a bank, Emoji Rangers and the weather, over HTTP.
///
/// What it answers follows from the seed, the content that is asked for, the clock it is given, and how often the
/// content was asked for before.
final class SampleProvider: Service, Sendable {
    /// What goes wrong on purpose.
    struct Faults: Sendable {
        /// How long every answer takes.
        var latency: Duration = .zero
        /// The share of requests answered with 503, from 0 to 1.
        var requestFailures = 0.0
        /// The share of timelines answered with an error of their own, from 0 to 1.
        var timelineFailures = 0.0
    }

    let seed: UInt64
    let faults: Faults
    let now: @Sendable () -> Timestamp
    let counters: SampleStatistics
    let revisions: RevisionCounters
    let verifiers: [SampleApp: WebhookVerifier]
    let loadAnswer: LoadAnswer
    /// Counts the timelines for load tests: no two have the same content.
    let loadNumber: Atomic<UInt64>

    private let address: BindAddress
    private let listening = ListeningPort()
    private let logger: Logger

    /// Largest body of a request.
    static let maximumRequestBytes = 8 * 1_024 * 1_024

    /// - Parameters:
    ///   - seed: what the content follows from.
    ///   - port: 0 lets the system choose; `port()` tells what it chose.
    ///   - secrets: apps whose requests must be signed, with their secrets.
    ///   - maximumTracked: how many timelines are counted one by one.
    ///   - now: the clock that content is dated by.
    init(
        seed: UInt64, host: String = "127.0.0.1", port: Int = 0, secrets: [SampleApp: SigningSecret] = [:],
        faults: Faults = Faults(), maximumTracked: Int = 100_000,
        now: @escaping @Sendable () -> Timestamp = SampleProvider.systemTime,
        logger: Logger = Logger(label: "freshet.provider")
    ) {
        self.seed = seed
        self.faults = faults
        self.now = now
        self.logger = logger
        self.counters = SampleStatistics(maximumTracked: maximumTracked)
        self.revisions = RevisionCounters(bits: 20)
        self.verifiers = secrets.mapValues(WebhookVerifier.init(secret:))
        self.loadAnswer = LoadAnswer(now: now())
        self.loadNumber = Atomic(seed % 1_000_000 * 1_000)
        self.address = .hostname(host, port: port)
    }

    /// Serves until the task is cancelled or the service group shuts down.
    func run() async throws {
        defer { listening.closes() }
        let application = Application(
            router: router(), configuration: ApplicationConfiguration(address: address, serverName: "freshet-provider"),
            onServerRunning: { [listening] channel in
                guard let port = channel.localAddress?.port else { return }
                listening.listens(on: port)
            },
            logger: logger)
        try await application.run()
    }

    /// The port that the provider listens on; suspends until it does.
    ///
    /// - Throws: `ListeningPort.NeverListened` when it has ended before it could listen.
    func port() async throws -> Int {
        try await listening.wait()
    }

    /// What was asked so far.
    func statistics() -> SampleStatistics.Snapshot {
        counters.snapshot
    }

    /// How often the timeline with this id was asked for.
    func fetches(of id: String) -> SampleStatistics.Fetches? {
        counters.fetches(of: id)
    }
}
