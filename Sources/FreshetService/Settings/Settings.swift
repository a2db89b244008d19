package import ReloadIngest

/// The settings, with defaults for production. ``SettingKey`` describes each, and `Settings+Reading.swift` reads them.
package struct Settings: Sendable, Equatable {
    package var role = ProcessRole.all
    package var postgres = PostgresSettings()
    package var kafka = KafkaSettings()
    package var topics = TopicSettings()
    package var ingest = IngestSettings()
    package var deadLetters = DeadLetterSettings()
    package var workers = WorkerSettings()
    package var providers = ProviderSettings()
    package var api = APISettings()
    package var health = HealthSettings()
    package var metrics = MetricsSettings()
    package var log = LogSettings()
}

/// Which parts of Freshet a process runs.
package enum ProcessRole: String, CaseIterable, Sendable {
    case ingest, workers, api, all

    package var runsIngest: Bool { self == .ingest || self == .all }
    package var runsWorkers: Bool { self == .workers || self == .all }
    package var runsAPI: Bool { self == .api || self == .all }
}

package struct PostgresSettings: Sendable, Equatable {
    /// A libpq URI or `keyword=value` string, which may hold a password.
    @Redacted package var url: String?
    package var maximumConnections = 8
    package var connectTimeout = Duration.seconds(5)
    /// Longest wait for a connection of the pool.
    package var acquireTimeout = Duration.seconds(10)
    package var statementTimeout = Duration.seconds(30)
}

package struct KafkaSettings: Sendable, Equatable {
    package var bootstrapServers: String?
    /// Whether the process runs a Kafka cluster of its own, in memory only.
    package var embedded = false
    package var group = "freshet"
    /// Properties of librdkafka that override Freshet's; they may hold passwords.
    @Redacted package var properties: [String: String] = [:]
    #if DEBUG
    /// Detours of connections, port by port, for tests with a proxy before an embedded broker.
    package var routes: [String: String] = [:]
    #endif
    /// Longest wait for the acknowledgement of a message; well under the lease.
    package var deliveryTimeout = Duration.seconds(10)
    /// Partitions of each topic of the embedded cluster.
    package var embeddedPartitions = 8
}

package struct TopicSettings: Sendable, Equatable {
    package init() {}

    package var pushes = "freshet.pushes"
    package var appChanges = "freshet.app-changes"
    package var widgets = "freshet.widgets"
    package var timelines = "freshet.timelines"
    package var deadLetters = "freshet.dead-letters"
    /// Written only if `workers.publishDecisions` says so.
    package var decisions = "freshet.decisions"
    /// Partitions of topics that `freshet topics` creates.
    package var partitions = 12
    /// Nil for the brokers' default.
    package var replicationFactor: Int?
    /// Retention of the input topics.
    package var retention = Duration.seconds(7 * 86_400)

    /// Sorts of events of further input topics, by name.
    package var more: [String: String] = [:]
    /// Apps whose events an input topic may carry, by the topic's name.
    package var allowedApps: [String: String] = [:]

    /// The topics that ingest consumes.
    package var inputs: [String] { [pushes, appChanges, widgets] + more.keys.sorted() }

    /// Allowed values of `more`.
    package static let sorts = ["pushes", "appChanges", "widgets"]
}

package struct IngestSettings: Sendable, Equatable {
    /// Most messages in one polled batch, which is one transaction.
    package var maximumBatch = 16_384
    /// Longest wait of a poll for the first message of a batch.
    package var pollInterval = Duration.milliseconds(2)
    /// Largest audience that is marked in the transaction of its event; a larger one is left to the sweeper.
    package var audienceLimit = 10_000
    /// Policy for a partition whose next offset is not in the log.
    package var offsetOutOfRange = OffsetOutOfRangePolicy.stop
}

package struct DeadLetterSettings: Sendable, Equatable {
    /// Time over which an app's failed events are counted.
    package var window = Duration.seconds(60)
    /// More failed events of an app within the window divert it…
    package var limit = 100
    /// …if they are also at least this many per cent of its events.
    package var share = 10
    /// Number of apps over their limit on one topic that halts it.
    package var haltingApps = 3
    /// Most failed events of one app that may wait before it is diverted, and their bytes.
    package var quota = 100_000
    package var quotaBytes = 256 << 20
    /// Most events that may wait for a diverted app, and on one topic for no registered app, and their bytes.
    package var waitingLimit = 500_000
    package var waitingBytes = 2 << 30
    /// Retention of dead letters that were replayed, discarded or forwarded.
    package var retention = Duration.seconds(30 * 86_400)
}

package struct WorkerSettings: Sendable, Equatable {
    /// Provider requests in flight, over all providers.
    package var concurrency = 32
    /// Time for which a work list is leased to a worker before another may take it.
    package var lease = Duration.seconds(30)
    /// Interval of looks for ready lists when nothing wakes the worker.
    package var pollInterval = Duration.seconds(1)
    /// How long a stopping worker may go on to finish what is in flight.
    package var graceTime = Duration.seconds(20)
    /// Longest wait before a timeline whose fetch has failed is tried again.
    package var retryCap = Duration.seconds(900)
    /// Publish every decision on `topics.decisions`: why timelines are reloaded, or not.
    package var publishDecisions = false
}

package struct ProviderSettings: Sendable, Equatable {
    /// Private, loopback and link-local addresses that providers may have: CIDR blocks or host names. None by default,
    /// so that a manifest cannot make Freshet call into the operator's network.
    package var allowPrivateNetworks: [String] = []
    /// Longest wait for a connection, TLS included, and for the next bytes of an answer. The whole request has the
    /// kind's timeout.
    package var connectTimeout = Duration.seconds(3)
    package var readTimeout = Duration.seconds(30)
    /// A file with certificates, PEM, of authorities that are trusted besides the system's.
    package var trustRoots: String?
    /// Largest answer that is read.
    package var maximumResponseBytes = 16 * 1_024 * 1_024
}

package struct APISettings: Sendable, Equatable {
    package var host = "127.0.0.1"
    /// 0 lets the system choose.
    package var port = 8_080
    /// A JWKS file with the keys of tokens; without one, `/v1` is not served.
    package var keys: String?
    /// Required values of the token claims `iss` and `aud`.
    package var issuer: String?
    package var audience: String?
    /// Requests a second of one token, and at once; a rate of 0 does not limit them.
    package var rateLimit = 1_000
    package var rateBurst = 2_000
    /// Tokens of one address that may be refused in a minute; 0 does not limit them.
    package var failureLimit = 60
    /// How long the body of a request may take to arrive.
    package var receiveTimeout = Duration.seconds(30)
    /// Most requests that wait for a timeline to change, and most streams of changes.
    package var maximumWaiting = 10_000
    package var maximumStreams = 2_000
    /// Origins of pages that may call the API.
    package var corsOrigins: [String] = []
}

package struct HealthSettings: Sendable, Equatable {
    package var host = "127.0.0.1"
    /// Where `/health` is served besides the API's port, in every role; 0 lets the system choose.
    package var port: Int?
}

package struct MetricsSettings: Sendable, Equatable {
    /// How often the database and the lag are read for `/metrics`.
    package var interval = Duration.seconds(15)
    /// Most kinds that have series of their own; the others are counted together.
    package var kinds = 100
    /// A timeline that has been due for longer is overdue.
    package var overdueAfter = Duration.seconds(10)
}

package struct LogSettings: Sendable, Equatable {
    package var level = LogLevel.info
    package var format = LogFormat.text
}

/// The levels of swift-log.
package enum LogLevel: String, CaseIterable, Sendable {
    case trace, debug, info, notice, warning, error, critical
}

package enum LogFormat: String, CaseIterable, Sendable {
    case text, json
}

/// A value that is not printed, since it may hold a secret.
@propertyWrapper
package struct Redacted<Value: Sendable & Equatable>: Sendable, Equatable, CustomStringConvertible,
    CustomDebugStringConvertible,
    CustomReflectable
{
    package var wrappedValue: Value

    package init(wrappedValue: Value) {
        self.wrappedValue = wrappedValue
    }

    package var description: String { SettingNames.redacted }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
