// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import ReloadIngest
import ReloadWorkers
import Waiting
import WidgetAPI
import WidgetDelivery
import WidgetEvents
import WidgetModel
import WidgetStore

/// Description of a setting. Reading, `config show`, `config keys` and the check for unknown keys all use this table.
package struct SettingKey: Sendable {
    /// Name of the setting: `workers.graceTime`.
    package let name: String
    package let summary: String
    /// Allowed values, such as "1 to 1000" or "text or json".
    package let expectation: String
    /// Whether the value may hold a secret, which is never printed and can be kept in a file named by `fileKeyName`.
    package let isSecret: Bool
    package let shape: Shape
    /// Sets the value from text, or throws a ``ModelError`` with the reason why it is not allowed.
    let assign: @Sendable (inout Settings, String) throws -> Void
    /// Returns the value as text in the form that `assign` accepts; nil if it is not set.
    package let write: @Sendable (Settings) -> String?

    /// Layout of a value in a file, and combination of several sources.
    package enum Shape: Sendable {
        case scalar
        /// Items separated by commas in one text.
        case list
        /// `name=value` pairs separated by commas in one text. Sources are merged by name.
        case map
    }

    /// Text printed in place of a secret.
    package static let redacted = "<redacted>"
    static let environmentPrefix = "FRESHET_"

    /// The environment variable that holds the setting: `FRESHET_WORKERS_CLAIM_BATCH`.
    package var environmentName: String { Self.environmentName(of: name) }

    /// `workers.graceTime` → `FRESHET_WORKERS_GRACE_TIME`.
    static func environmentName(of key: String) -> String {
        var name = environmentPrefix
        var previousIsLowercase = false
        for character in key {
            if character.isUppercase, previousIsLowercase { name.append("_") }
            previousIsLowercase = character.isLowercase
            name.append(character == "." ? "_" : character.uppercased())
        }
        return name
    }

    /// The setting that names a file with the value: `postgres.urlFile`.
    package var fileKeyName: String? {
        isSecret ? name + "File" : nil
    }

    /// The default as text; nil for none.
    package var defaultText: String? {
        write(Settings())
    }

    /// The value for printing. A map that may hold secrets shows only its names.
    package func display(_ settings: Settings) -> String? {
        guard let text = write(settings) else { return nil }
        guard isSecret, !text.isEmpty else { return text }
        guard case .map = shape else { return Self.redacted }
        let names = Self.split(text).map { $0.prefix { $0 != "=" } }
        return names.map { "\($0)=\(Self.redacted)" }.joined(separator: ",")
    }
}

// MARK: The settings

extension SettingKey {
    package static let all: [SettingKey] =
        general + postgres + kafka + topics + ingest + deadLetters + workers + stacks + delivery + providers + debug
        + api + console + health + metrics + log

    package static let byName: [String: SettingKey] = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })

    /// All names that a file, the flags or the environment may use: the settings and the files of their secrets.
    static let knownNames: [String] = all.flatMap { [$0.name] + ($0.fileKeyName.map { [$0] } ?? []) }

    private static let general: [SettingKey] = [.choice("role", \.role, "Parts of Freshet that the process runs.")]

    private static let postgres: [SettingKey] = [
        .optionalText(
            "postgres.url", \.postgres.url,
            expectation: "a libpq URI or keyword=value string, such as postgresql://freshet@db.example.com/freshet",
            isSecret: true, "PostgreSQL database that holds the widget state; all keywords of libpq, TLS included."),
        .integer(
            "postgres.maximumConnections", \.postgres.maximumConnections, 1...1_000,
            "Most connections of this process."),
        .duration(
            "postgres.connectTimeout", \.postgres.connectTimeout, .milliseconds(100)...(.seconds(300)),
            "Longest wait for a new connection."),
        .duration(
            "postgres.acquireTimeout", \.postgres.acquireTimeout, .milliseconds(100)...(.seconds(300)),
            "Longest wait for a connection of the pool."),
        .duration(
            "postgres.statementTimeout", \.postgres.statementLimit, .milliseconds(100)...(.seconds(3_600)),
            "Time limit of a statement in PostgreSQL."),
    ]

    private static let kafka: [SettingKey] = [
        .optionalText(
            "kafka.bootstrapServers", \.kafka.bootstrapServers, expectation: "host:port, separated by commas",
            isValid: isBootstrapServers,
            "Kafka brokers to connect to first; required unless kafka.embedded is set."),
        .flag(
            "kafka.embedded", \.kafka.embedded,
            "Run a Kafka cluster in the process, on one machine and in memory, in place of brokers; only for the role all."
        ),
        .text("kafka.group", \.kafka.group, "Consumer group under which positions are committed, for lag tools."),
        .map(
            "kafka.properties", \.kafka.properties,
            expectation: "name=value, separated by commas (\\, for a comma in a value)", isSecret: true,
            isValid: { name, _ in !name.isEmpty },
            "Any property of librdkafka (TLS, SASL, …); overrides Freshet's defaults."),
        .duration(
            "kafka.deliveryTimeout", \.kafka.deliveryTimeout, .milliseconds(100)...(.seconds(300)),
            "Longest wait for the brokers to acknowledge a message; under workers.lease."),
        .integer(
            "kafka.embeddedPartitions", \.kafka.embeddedPartitions, 1...256,
            "Partitions of each topic of an embedded cluster."),
    ]

    #if DEBUG
    private static let debug: [SettingKey] = [
        .map(
            "kafka.routes", \.kafka.routes, expectation: "port=port, separated by commas",
            isValid: { UInt16($0) != nil && UInt16($1) != nil },
            "Ports to connect to in place of those that brokers advertise; debug builds only."),
        .duration(
            "workers.auditInterval", \.workers.auditInterval, .seconds(1)...(.seconds(86_400)),
            "Pause between two passes of the audit; debug builds only."),
        .duration(
            "workers.auditSpacing", \.workers.auditSpacing, .milliseconds(1)...(.seconds(60)),
            "Pause between two chunks of the audit; debug builds only."),
    ]
    #else
    private static let debug: [SettingKey] = []
    #endif

    private static let topics: [SettingKey] = [
        .topic("topics.pushes", \.topics.pushes, "Push notifications in."),
        .topic("topics.appChanges", \.topics.appChanges, "Changes in apps in."),
        .topic("topics.widgets", \.topics.widgets, "Widgets placed, configured, viewed and removed, and stacks, in."),
        .topic("topics.donations", \.topics.donations, "Relevant shortcuts and donated interactions in."),
        .topic("topics.timelines", \.topics.timelines, "Timelines out; compacted, keyed by timeline."),
        .topic("topics.suggestions", \.topics.suggestions, "Schedules of stacks out; compacted, keyed by stack."),
        .topic("topics.deadLetters", \.topics.deadLetters, "Messages that could not be applied, out."),
        .map(
            "topics.more", \.topics.more,
            expectation: "topic=pushes, topic=appChanges, topic=widgets or topic=donations, separated by commas",
            isValid: { name, sort in
                isKafkaName(name) && EventTopic(rawValue: sort) != nil
            }, "Further input topics by type of event, such as one for each producer, protected by Kafka's ACLs."),
        .map(
            "topics.allowedApps", \.topics.allowedApps,
            expectation: "topic=app, or topic=app|app, separated by commas",
            isValid: { name, apps in
                isKafkaName(name)
                    && apps.split(separator: "|", omittingEmptySubsequences: false)
                        .allSatisfy { Text.identifierProblem(String($0)) == nil }
            }, "The apps whose events an input topic may carry; those of others become dead letters."),
        .topic("topics.decisions", \.topics.decisions, "Every decision, out; only with workers.publishDecisions."),
        .integer(
            "topics.partitions", \.topics.partitions, 1...10_000,
            "Partitions that `freshet topics` gives each topic, and expects at least."),
        .optionalInteger(
            "topics.replicationFactor", \.topics.replicationFactor, 1...32,
            "Replicas that `freshet topics` gives each topic; the brokers' default otherwise."),
        .duration(
            "topics.retention", \.topics.retention, .seconds(60)...(.seconds(86_400 * 3_650)),
            "Retention that `freshet topics` gives the input topics; longer than any outage of ingest."),
    ]

    private static let ingest: [SettingKey] = [
        .integer("ingest.maximumBatch", \.ingest.maximumBatch, 1...100_000, "Most messages polled at a time."),
        .duration(
            "ingest.pollInterval", \.kafka.pollInterval, .milliseconds(1)...(.seconds(10)),
            "Longest wait of a poll for the first message of a batch."),
        .integer(
            "ingest.audienceLimit", \.ingest.audienceLimit, 1...1_000_000,
            "Largest audience that is marked with its event; a larger one is swept."),
        .choice(
            "ingest.offsetOutOfRange", \.ingest.offsetOutOfRange,
            "Reaction to a log without the next offset: stop the partition, or continue at the earliest message (and apply a "
                + "log that has lost its end again)."),
    ]

    private static let deadLetters: [SettingKey] = [
        .duration(
            "deadLetters.window", \.ingest.deadLetters.window, .seconds(1)...(.seconds(86_400)),
            "Time over which the failed events of an app are counted."),
        .integer(
            "deadLetters.limit", \.ingest.deadLetters.letters, 1...1_000_000,
            "Failed events within the window above which an app is diverted: its events wait for replay."),
        .integer(
            "deadLetters.share", \.ingest.deadLetters.share, 0...100,
            "Least percentage of failed events for a diversion."),
        .integer(
            "deadLetters.haltingApps", \.ingest.deadLetters.haltingApps, 1...1_000_000,
            "Number of apps diverted on one topic within ten windows that halts the topic."),
        .integer(
            "deadLetters.quota", \.ingest.deadLetters.quota.letters, 1...1_000_000_000,
            "Most waiting failed events of one app; more divert it."),
        .integer(
            "deadLetters.quotaBytes", \.ingest.deadLetters.quota.bytes, 1_024...(1 << 50),
            "Most bytes of waiting failed events of one app; more divert it."),
        .integer(
            "deadLetters.waitingLimit", \.ingest.deadLetters.waiting.letters, 1...1_000_000_000,
            "Most waiting events of a diverted app, and of unregistered apps on a topic; more are dropped."
        ),
        .integer(
            "deadLetters.waitingBytes", \.ingest.deadLetters.waiting.bytes, 1_024...(1 << 50),
            "Most bytes of such events."),
        .duration(
            "deadLetters.retention", \.ingest.retention, .seconds(60)...(.seconds(86_400 * 3_650)),
            "Retention of dead letters that were replayed, discarded or forwarded."),
    ]

    private static let workers: [SettingKey] = [
        .integer("workers.concurrency", \.workers.concurrency, 1...10_000, "Provider requests in flight."),
        .duration(
            "workers.lease", \.workers.lease, .seconds(1)...(.seconds(3_600)),
            "Lease of a work list."),
        .duration(
            "workers.pollInterval", \.workers.pollInterval, .milliseconds(10)...(.seconds(60)),
            "Polling interval for ready work lists when nothing wakes the workers."),
        .duration(
            "workers.graceTime", \.workers.graceTime, .zero...(.seconds(3_600)),
            "Time in which a stopping process finishes work in flight."),
        .duration(
            "workers.retryCap", \.workers.providerBackoff.cap, .seconds(1)...(.seconds(86_400)),
            "Longest wait before a timeline whose fetch has failed is tried again."),
        .flag(
            "workers.publishDecisions", \.workers.publishDecisions,
            "Publish every decision on timelines, those of ingest too. For observation: some may be lost."
        ),
    ]

    private static let stacks: [SettingKey] = [
        .duration(
            "stacks.minimumStay", \.stacks.minimumStay, .zero...(.seconds(86_400)),
            "Least time between two automatic rotations of a stack."),
        .duration(
            "stacks.respectForTurn", \.stacks.respectForTurn, .zero...(.seconds(86_400)),
            "Time for which a stack stays as the person turned it."),
        .integer(
            "stacks.suggestionsPerDay", \.stacks.maximumSuggestionsPerDay, 0...1_000,
            "Most suggestions of an app on a device in 24 hours; developer mode lifts it."),
    ]

    private static let delivery: [SettingKey] = [
        .map(
            "delivery.tokenKeys", \.delivery.tokenKeys,
            expectation: "id=base64 of 32 bytes, separated by commas; the greatest id seals", isSecret: true,
            isValid: { id, key in
                !id.isEmpty && id.utf8.count <= 64 && DeviceTokenKeys.secret(base64: key) != nil
            },
            "Keys that the tokens of devices are encrypted with at rest."),
        .map(
            "delivery.apnsKeys", \.delivery.apnsKeys,
            expectation: "app=TEAM/KEY/path of the .p8 file, separated by commas",
            isValid: { app, key in
                !app.isEmpty && key.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).count == 3
            },
            "Keys of apps at Apple's push notification service."),
        .map(
            "delivery.bundleIDs", \.delivery.bundleIDs,
            expectation: "app=bundle id, more of them after +, separated by commas",
            isValid: { app, ids in
                !app.isEmpty
                    && ids.split(separator: "+", omittingEmptySubsequences: false).allSatisfy {
                        AppDefinition.isBundleIdentifier(String($0))
                    }
            },
            "Bundle ids besides an app's name whose topics its devices may register."),
        .integer(
            "delivery.devicesPerUser", \.ingest.registrations.devicesPerUser, 1...1_000,
            "Most devices that a user of an app can register."),
        .optionalText(
            "delivery.apnsURL", \.delivery.apnsURL, expectation: "an https URL",
            isValid: { (try? ProviderURL($0))?.isSecure == true },
            "Server in place of https://api.push.apple.com: a stand-in, a proxy, or Apple's with port 2197."),
        .optionalText(
            "delivery.apnsSandboxURL", \.delivery.apnsSandboxURL, expectation: "an https URL",
            isValid: { (try? ProviderURL($0))?.isSecure == true },
            "Server in place of https://api.sandbox.push.apple.com; the one beside delivery.apnsURL by default."),
        .optionalText(
            "delivery.trustRoots", \.delivery.trustRoots, expectation: "the path of a file with PEM certificates",
            "Authorities that the push service's certificate may be signed by, besides the system's."),
        .map(
            "delivery.webhooks", \.delivery.service.webhooks, expectation: "app=URL, separated by commas",
            isValid: { app, url in !app.isEmpty && (try? ProviderURL(url)) != nil },
            "Webhooks of apps whose backends notify the devices themselves."),
        .duration(
            "delivery.window", \.delivery.service.policy.window, .zero...(.seconds(300)),
            "Time for which the changes of a device's widgets are gathered before it is notified."),
        .duration(
            "delivery.minimumSpacing", \.delivery.service.policy.minimumSpacing, .zero...(.seconds(86_400)),
            "Least time between two pushes to a device, unless a person waits for the change."),
        .integer(
            "delivery.pushesPerDay", \.delivery.service.policy.dailyBudget, 1...100_000,
            "Most pushes to a device in 24 hours; developer mode lifts it."),
        .integer(
            "delivery.concurrency", \.delivery.service.concurrency, 16...100_000,
            "Most devices that a process notifies at once."),
        .duration(
            "delivery.timeout", \.delivery.service.timeout, .milliseconds(100)...(.seconds(50)),
            "Longest wait for an answer to a push or a webhook, and longest silence in its body."),
        .duration(
            "delivery.lease", \.delivery.service.lease, .seconds(1)...(.seconds(600)),
            "Time for which a process holds a list of devices; at least twice delivery.timeout."),
        .duration(
            "delivery.objective", \.delivery.objective, .seconds(1)...(.seconds(86_400)),
            "Time within which devices are to fetch a change; a kind's freshnessObjective replaces it."),
        .duration(
            "delivery.webhookPatience", \.delivery.service.webhookPatience, .seconds(1)...(.seconds(30 * 86_400)),
            "Time after which a webhook that fails is disabled."),
    ]

    private static let providers: [SettingKey] = [
        .list(
            "providers.allowPrivateNetworks", \.providers.allowPrivateNetworks,
            expectation: "CIDR blocks, addresses or host names, such as 10.0.0.0/8, ::1, *.internal.example.com",
            isValid: { (try? EgressPolicy(allowing: [$0])) != nil },
            "Private addresses that providers may have; none unless listed here."),
        .duration(
            "providers.connectTimeout", \.providers.connectTimeout, .milliseconds(10)...(.seconds(300)),
            "Longest wait for a connection to a provider, TLS included."),
        .duration(
            "providers.readTimeout", \.providers.readTimeout, .milliseconds(10)...(.seconds(3_600)),
            "Longest wait for the next bytes of an answer; the whole request has the kind's timeout."),
        .optionalText(
            "providers.trustRoots", \.providers.trustRoots, expectation: "the path of a file with PEM certificates",
            "Authorities that providers' certificates may be signed by, besides the system's."),
        .integer(
            "providers.maximumResponseBytes", \.workers.maximumResponseBytes, 1_024...268_435_456,
            "Largest answer of a provider that is read."),
    ]

    private static let api: [SettingKey] = [
        .text("api.host", \.api.host, "Address that the HTTP API listens on."),
        .integer("api.port", \.api.port, 0...65_535, "Port of the HTTP API; 0 lets the system choose."),
        .optionalText(
            "api.keys", \.api.keys, expectation: "the path of a JWKS file",
            "Keys that tokens are verified with, read again when the file changes; without it, /v1 is not served."),
        .optionalText(
            "api.issuer", \.api.rules.issuer, expectation: "1 or more bytes of text", "Required iss of tokens."),
        .optionalText(
            "api.audience", \.api.rules.audience, expectation: "1 or more bytes of text",
            "Audience that tokens must name in aud; without it, tokens must have no aud."),
        .integer(
            "api.rateLimit", \.api.rateLimit, 0...1_000_000, "Requests a second of one token; 0 does not limit them."),
        .integer("api.rateBurst", \.api.rateBurst, 1...1_000_000, "Requests of one token at once."),
        .integer(
            "api.failureLimit", \.api.failuresPerMinute, 0...1_000_000,
            "Tokens from one address that may be refused in a minute; 0 does not limit them."),
        .duration(
            "api.receiveTimeout", \.api.times.receive, .seconds(1)...(.seconds(3_600)),
            "Time limit for the body of a request."),
        .duration(
            "api.idleTimeout", \.api.times.idle, .seconds(1)...(.seconds(3_600)),
            "Time after which a connection without a request is closed; longer than that of a load balancer in front."),
        .integer(
            "api.maximumWaiting", \.api.waits.polls, 0...1_000_000,
            "Most requests of this process that wait for a timeline to change."),
        .integer(
            "api.maximumStreams", \.api.waits.streams, 0...1_000_000,
            "Most streams of changes that are open in this process."),
        .integer(
            "api.appEvents", \.api.eventQuota, 0...100_000_000,
            "Events that one app may publish a minute through this process; 0 does not limit them."),
        .integer(
            "api.appReloads", \.api.reloadQuota, 0...100_000_000,
            "Reload requests among them; 0 does not limit them."),
        .integer(
            "api.appDeadLetters", \.api.deadLetterQuota, 0...1_000_000,
            "Most waiting dead letters of an app that may publish over HTTP; 0 does not limit them."),
        .integer(
            "api.appConnections", \.api.waits.ofApp, 0...1_000_000,
            "Most requests and streams of one app that wait in this process; 0: half of those of all apps."),
        .list(
            "api.corsOrigins", \.api.corsOrigins, expectation: "origins, such as https://app.example.com",
            isValid: { $0.utf8.count <= 256 && $0.contains("://") && !$0.hasSuffix("/") },
            "Origins whose pages may call the API from a browser; none unless listed here."),
    ]

    private static let console: [SettingKey] = [
        .flag("console.enabled", \.console.enabled, "Whether the API serves the console at /console."),
        .optionalText(
            "console.key", \.console.key, expectation: "base64 of 32 bytes or more, such as `openssl rand -base64 32`",
            isSecret: true, isValid: { ConsoleKey(base64: $0) != nil },
            "Secret that seals the console's sessions, the same in every process; a new one signs everybody out."),
        .optionalInteger(
            "console.port", \.console.port, 0...65_535,
            "Port of the console alone, on api.host; without one it is served beside the API."),
        .duration(
            "console.sessionTime", \.console.sessionTime, .seconds(60)...(.seconds(7 * 86_400)),
            "Longest time of a session; it ends with its token too."),
        .optionalText(
            "console.runbook", \.console.runbook, expectation: "an http or https URL",
            isValid: { $0.hasPrefix("https://") || $0.hasPrefix("http://") },
            "Page of your runbook, to whose headings the console's charts link."),
    ]

    private static let health: [SettingKey] = [
        .text("health.host", \.healthHost, "Address that health.port listens on."),
        .optionalInteger(
            "health.port", \.healthPort, 0...65_535,
            "Port that serves /health in every role, from the start on; without one only the API serves it."),
    ]

    private static let metrics: [SettingKey] = [
        .duration(
            "metrics.interval", \.metricsInterval, .seconds(1)...(.seconds(3_600)),
            "Interval at which every process with health.port reads the database for /metrics."),
        .integer(
            "metrics.kinds", \.metricsKinds, 1...1_000,
            "Most kinds that have series of their own in /metrics; the others are counted together as other."),
        .duration(
            "metrics.overdueAfter", \.metricsOverdueAfter, .milliseconds(100)...(.seconds(86_400)),
            "Time after which a due timeline counts as overdue."),
    ]

    private static let log: [SettingKey] = [
        .choice("log.level", \.logLevel, "Least severe messages that are logged."),
        .choice("log.format", \.logFormat, "Format of log lines."),
    ]
}

// MARK: Sorts of settings

extension SettingKey {
    typealias Path<Value> = any WritableKeyPath<Settings, Value> & Sendable

    /// A setting with one value.
    private static func scalar<Value>(
        _ name: String, _ path: Path<Value>, _ expectation: String, isSecret: Bool = false, _ summary: String,
        read: @escaping @Sendable (String) throws -> Value,
        write: @escaping @Sendable (Value) -> String? = { "\($0)" }
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: isSecret, shape: .scalar,
            assign: { settings, text in settings[keyPath: path] = try read(text) },
            write: { write($0[keyPath: path]) })
    }

    static func text(_ name: String, _ path: Path<String>, _ summary: String) -> SettingKey {
        scalar(name, path, "1 to 256 bytes of text", summary) { try $0.checked((1...256).contains($0.utf8.count)) }
    }

    static func optionalText(
        _ name: String, _ path: Path<String?>, expectation: String, isSecret: Bool = false,
        isValid: @escaping @Sendable (String) -> Bool = { _ in true }, _ summary: String
    ) -> SettingKey {
        scalar(
            name, path, expectation, isSecret: isSecret, summary,
            read: { try $0.checked((1...16_384).contains($0.utf8.count) && isValid($0)) }, write: { $0 })
    }

    static func topic(_ name: String, _ path: Path<String>, _ summary: String) -> SettingKey {
        scalar(name, path, "1 to 249 letters, digits, dots, underscores or hyphens", summary) {
            try $0.checked(isKafkaName($0) && $0 != "." && $0 != "..")
        }
    }

    static func integer(_ name: String, _ path: Path<Int>, _ range: ClosedRange<Int>, _ summary: String) -> SettingKey {
        scalar(name, path, "\(range.lowerBound) to \(range.upperBound)", summary) {
            try integer($0, in: range)
        }
    }

    static func optionalInteger(
        _ name: String, _ path: Path<Int?>, _ range: ClosedRange<Int>, _ summary: String
    ) -> SettingKey {
        scalar(
            name, path, "\(range.lowerBound) to \(range.upperBound)", summary,
            read: { try integer($0, in: range) }, write: { $0.map { "\($0)" } })
    }

    static func duration(
        _ name: String, _ path: Path<Duration>, _ range: ClosedRange<Duration>, _ summary: String
    ) -> SettingKey {
        let bounds = "\(range.lowerBound.text) to \(range.upperBound.text)"
        return scalar(
            name, path, bounds, summary,
            read: { text in
                guard let duration = Duration(text: text) else {
                    throw ModelError(message: "is not \(Duration.textForm)")
                }
                guard range.contains(duration) else { throw ModelError(message: "is out of range") }
                return duration
            }, write: { $0.text })
    }

    static func choice<Value: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, _ path: Path<Value>, _ summary: String
    ) -> SettingKey {
        scalar(
            name, path, Value.allCases.map(\.rawValue).joined(separator: ", "), summary,
            read: { try required(Value(rawValue: $0)) }, write: { $0.rawValue })
    }

    static func flag(_ name: String, _ path: Path<Bool>, _ summary: String) -> SettingKey {
        scalar(name, path, "true, false", summary) { try required(Bool($0)) }
    }

    /// A list whose items `isValid` accepts.
    static func list(
        _ name: String, _ path: Path<[String]>, expectation: String,
        isValid: @escaping @Sendable (String) -> Bool, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: false, shape: .list,
            assign: { settings, text in
                let items = Self.split(text)
                if let wrong = items.first(where: { !isValid($0) }) {
                    throw ModelError(message: "holds \(Text.quoted(wrong))")
                }
                settings[keyPath: path] = items
            },
            write: { join($0[keyPath: path]) })
    }

    /// Names with values that `isValid` accepts.
    static func map(
        _ name: String, _ path: Path<[String: String]>, expectation: String,
        isSecret: Bool = false, isValid: @escaping @Sendable (String, String) -> Bool, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: isSecret, shape: .map,
            assign: { settings, text in
                for pair in Self.split(text) {
                    let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                        .map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }
                    guard parts.count == 2, isValid(parts[0], parts[1]) else {
                        let shown = isSecret ? "has a part that is not name=value" : "holds \(Text.quoted(pair))"
                        throw ModelError(message: shown)
                    }
                    settings[keyPath: path][parts[0]] = parts[1]
                }
            },
            write: { settings in
                join(settings[keyPath: path].sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })
            })
    }
}

extension String {
    fileprivate func checked(_ isValid: Bool) throws -> String {
        guard isValid else { throw ModelError(message: "is not allowed") }
        return self
    }
}

// MARK: The text of values

extension SettingKey {
    /// Whether Kafka allows the text as a name.
    static func isKafkaName(_ text: String) -> Bool {
        (1...249).contains(text.utf8.count)
            && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    }

    private static func required<Value>(_ value: Value?) throws -> Value {
        guard let value else { throw ModelError(message: "is not allowed") }
        return value
    }

    private static func integer(_ text: String, in range: ClosedRange<Int>) throws -> Int {
        guard let number = Int(text) else { throw ModelError(message: "is not a whole number") }
        guard range.contains(number) else { throw ModelError(message: "is out of range") }
        return number
    }

    /// Splits a list. Items are separated by commas, with `\,` for a comma and `\\` for a backslash within an item.
    static func split(_ text: String) -> [String] {
        var items = [""]
        var rest = text[...]
        while let character = rest.popFirst() {
            if character == "," {
                items.append("")
            } else if character == "\\", rest.first == "," || rest.first == "\\" {
                items[items.count - 1].append(rest.removeFirst())
            } else {
                // A backslash before another character stands for itself.
                items[items.count - 1].append(character)
            }
        }
        return items.map { $0.trimmingCharacters(in: .whitespacesAndNewlines) }.filter { !$0.isEmpty }
    }

    /// The list that ``split(_:)`` splits.
    static func join(_ items: [String]) -> String {
        items.map { $0.replacing("\\", with: "\\\\").replacing(",", with: "\\,") }.joined(separator: ",")
    }

    /// Whether the text is brokers, separated by commas: `host`, `host:port` or `[ipv6]:port`, optionally after
    /// `protocol://`.
    private static func isBootstrapServers(_ text: String) -> Bool {
        let servers = text.split(separator: ",", omittingEmptySubsequences: true)
        return !servers.isEmpty
            && servers.allSatisfy { server in
                var rest = server.drop { $0 == " " }
                while rest.last == " " { rest.removeLast() }
                if let scheme = rest.firstRange(of: "://") { rest = rest[scheme.upperBound...] }
                return isServer(rest)
            }
    }

    private static func isServer(_ text: Substring) -> Bool {
        guard !text.isEmpty, !text.contains(where: \.isWhitespace) else { return false }
        // Colons in brackets belong to an address.
        let afterHost = text.hasPrefix("[") ? text.drop { $0 != "]" }.dropFirst() : text.drop { $0 != ":" }
        guard afterHost.count < text.count else { return false }
        guard !afterHost.isEmpty else { return true }
        guard afterHost.hasPrefix(":"), let port = Int(afterHost.dropFirst()) else { return false }
        return (1...65_535).contains(port)
    }
}
