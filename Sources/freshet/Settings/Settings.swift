import ReloadIngest

/// The settings, with defaults for production. ``SettingKey`` describes each, and `Settings+Reading.swift` reads them.
struct Settings: Sendable, Equatable {
    var role = ProcessRole.all
    var postgres = PostgresSettings()
    var kafka = KafkaSettings()
    var topics = TopicSettings()
    var ingest = IngestSettings()
    var deadLetters = DeadLetterSettings()
    var workers = WorkerSettings()
    var providers = ProviderSettings()
    var api = APISettings()
    var health = HealthSettings()
    var metrics = MetricsSettings()
    var log = LogSettings()
}

/// Which parts of Freshet a process runs.
enum ProcessRole: String, CaseIterable, Sendable {
    case ingest, workers, api, all

    var runsIngest: Bool { self == .ingest || self == .all }
    var runsWorkers: Bool { self == .workers || self == .all }
    var runsAPI: Bool { self == .api || self == .all }
}

struct PostgresSettings: Sendable, Equatable {
    /// A libpq URI or `keyword=value` string, which may hold a password.
    @Redacted var url: String?
    var maximumConnections = 8
    var connectTimeout = Duration.seconds(5)
    /// Longest wait for a connection of the pool.
    var acquireTimeout = Duration.seconds(10)
    var statementTimeout = Duration.seconds(30)
}

struct KafkaSettings: Sendable, Equatable {
    var bootstrapServers: String?
    var group = "freshet"
    /// Name that makes ingest a static member of the group.
    var groupInstanceID: String?
    /// Properties of librdkafka that override Freshet's; they may hold passwords.
    @Redacted var properties: [String: String] = [:]
    /// Longest wait for the acknowledgement of a message; well under the lease.
    var deliveryTimeout = Duration.seconds(10)
    /// Partitions of each topic of the embedded cluster, which is used if no brokers are named.
    var embeddedPartitions = 8
}

struct TopicSettings: Sendable, Equatable {
    var pushes = "freshet.pushes"
    var appChanges = "freshet.app-changes"
    var widgets = "freshet.widgets"
    var timelines = "freshet.timelines"
    var deadLetters = "freshet.dead-letters"
    /// Written only if `workers.publishDecisions` says so.
    var decisions = "freshet.decisions"
    /// Partitions of topics that `freshet topics` creates.
    var partitions = 12
    /// Nil for the brokers' default.
    var replicationFactor: Int?
    /// Retention of the input topics.
    var retention = Duration.seconds(7 * 86_400)

    /// Sorts of events of further input topics, by name.
    var more: [String: String] = [:]
    /// Apps whose events an input topic may carry, by the topic's name.
    var allowedApps: [String: String] = [:]

    /// The topics that ingest consumes.
    var inputs: [String] { [pushes, appChanges, widgets] + more.keys.sorted() }

    /// Allowed values of `more`.
    static let sorts = ["pushes", "appChanges", "widgets"]
}

struct IngestSettings: Sendable, Equatable {
    /// Most messages in one polled batch, which is one transaction.
    var maximumBatch = 65_536
    /// Longest wait of a poll for the first message of a batch.
    var pollInterval = Duration.milliseconds(2)
    /// Largest audience that is marked in the transaction of its event; a larger one is left to the sweeper.
    var audienceLimit = 10_000
    /// Policy for a partition whose next offset is not in the log.
    var offsetOutOfRange = OffsetOutOfRangePolicy.stop
}

struct DeadLetterSettings: Sendable, Equatable {
    /// Time over which an app's failed events are counted.
    var window = Duration.seconds(60)
    /// More failed events of an app within the window divert it…
    var limit = 100
    /// …if they are also at least this many per cent of its events.
    var share = 10
    /// Number of apps over their limit that halts ingest.
    var haltingApps = 3
    /// Most events that may wait for a diverted app, and for all apps that are not registered.
    var waitingLimit = 500_000
    /// Retention of dead letters that were replayed, discarded or forwarded.
    var retention = Duration.seconds(30 * 86_400)
}

struct WorkerSettings: Sendable, Equatable {
    /// Provider requests in flight, over all providers.
    var concurrency = 32
    /// Time for which a work list is leased to a worker before another may take it.
    var lease = Duration.seconds(30)
    /// Interval of looks for ready lists when nothing wakes the worker.
    var pollInterval = Duration.seconds(1)
    /// How long a stopping worker may go on to finish what is in flight.
    var graceTime = Duration.seconds(20)
    /// Longest wait before a timeline whose fetch has failed is tried again.
    var retryCap = Duration.seconds(900)
    /// Publish every decision on `topics.decisions`: why timelines are reloaded, or not.
    var publishDecisions = false
}

struct ProviderSettings: Sendable, Equatable {
    /// Private, loopback and link-local addresses that providers may have: CIDR blocks or host names. None by default,
    /// so that a manifest cannot make Freshet call into the operator's network.
    var allowPrivateNetworks: [String] = []
    /// Longest wait for a connection, TLS included, and for the next bytes of an answer. The whole request has the
    /// kind's timeout.
    var connectTimeout = Duration.seconds(3)
    var readTimeout = Duration.seconds(30)
    /// A file with certificates, PEM, of authorities that are trusted besides the system's.
    var trustRoots: String?
    /// Largest answer that is read.
    var maximumResponseBytes = 16 * 1_024 * 1_024
}

struct APISettings: Sendable, Equatable {
    var host = "127.0.0.1"
    /// 0 lets the system choose.
    var port = 8_080
    /// A JWKS file with the keys of tokens; without one, `/v1` is not served.
    var keys: String?
    /// What `iss` and `aud` of tokens must be.
    var issuer: String?
    var audience: String?
    /// Requests a second of one token, and at once; a rate of 0 does not limit them.
    var rateLimit = 1_000
    var rateBurst = 2_000
    /// Tokens of one address that may be refused in a minute; 0 does not limit them.
    var failureLimit = 60
    /// How long the body of a request may take to arrive.
    var receiveTimeout = Duration.seconds(30)
    /// Most requests that wait for a timeline to change, and most streams of changes.
    var maximumWaiting = 10_000
    var maximumStreams = 2_000
    /// Origins of pages that may call the API.
    var corsOrigins: [String] = []
}

struct HealthSettings: Sendable, Equatable {
    var host = "127.0.0.1"
    /// Where `/health` is served besides the API's port, in every role; 0 lets the system choose.
    var port: Int?
}

struct MetricsSettings: Sendable, Equatable {
    /// How often the database and the lag are read for `/metrics`.
    var interval = Duration.seconds(15)
    /// Most kinds that have series of their own; the others are counted together.
    var kinds = 100
    /// A timeline that has been due for longer is overdue.
    var overdueAfter = Duration.seconds(10)
}

struct LogSettings: Sendable, Equatable {
    var level = LogLevel.info
    var format = LogFormat.text
}

/// The levels of swift-log.
enum LogLevel: String, CaseIterable, Sendable {
    case trace, debug, info, notice, warning, error, critical
}

enum LogFormat: String, CaseIterable, Sendable {
    case text, json
}

/// A value that is not printed, since it may hold a secret.
@propertyWrapper
struct Redacted<Value: Sendable & Equatable>: Sendable, Equatable, CustomStringConvertible,
    CustomDebugStringConvertible,
    CustomReflectable
{
    var wrappedValue: Value

    init(wrappedValue: Value) {
        self.wrappedValue = wrappedValue
    }

    var description: String { SettingNames.redacted }
    var debugDescription: String { description }
    var customMirror: Mirror { Mirror(self, children: [:]) }
}
