// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient
package import ReloadIngest
package import ReloadWorkers
package import WidgetAPI
package import WidgetDelivery
import WidgetEvents
package import WidgetModel

/// The settings, with defaults for production. ``SettingKey/all`` describes each.
package struct Settings: Sendable {
    package var role = ProcessRole.all
    /// PostgreSQL; the URL may hold a password.
    @Redacted package var postgres = PostgresConfiguration(connectionString: "")
    package var kafka = KafkaSettings()
    package var topics = TopicSettings()
    /// Settings of ingest and of dead letters; the topics and the group are those of the other settings.
    package var ingest: IngestConfiguration = {
        var ingest = IngestConfiguration()
        ingest.maximumBatch = 16_384
        return ingest
    }()
    /// Settings of the workers; the topics and the rotation are those of the other settings.
    package var workers = WorkerConfiguration()
    package var stacks = RotationPolicy()
    package var delivery = DeliverySettings()
    package var providers = ProviderSettings()
    package var api = APIConfiguration()
    package var console = ConsoleSettings()
    package var healthHost = "127.0.0.1"
    package var healthPort: Int?
    package var metricsInterval = Duration.seconds(15)
    package var metricsKinds = 100
    package var metricsOverdueAfter = Duration.seconds(10)
    package var logLevel = Logger.Level.info
    package var logFormat = LogFormat.text
    /// Description of the environment's variables that ask for a proxy; nil without any. No HTTP client is made then.
    package var proxyProblem: String?

    /// Description of the variables that ask for an HTTP proxy; nil if there are none, or if `NO_PROXY` exempts
    /// everything.
    ///
    /// Freshet does not use a proxy: it checks the address of each connection to a provider or webhook, which a proxy
    /// would hide. With such a variable no process and no command makes requests, since they would pass by the proxy
    /// that the operator demands.
    package static func proxyProblem(in environment: [String: String]) -> String? {
        let names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"]
        let set = names.filter { environment[$0]?.isEmpty == false }
        let isExempt = ["NO_PROXY", "no_proxy"].contains { environment[$0] == "*" }
        guard !set.isEmpty, !isExempt else { return nil }
        return
            "\(set.joined(separator: ", ")) in the environment: Freshet sends requests to providers, webhooks and Apple "
            + "directly, and uses no proxy"
    }

    /// How to end the problem with a proxy.
    package static let proxyAdvice = "unset it, or set NO_PROXY=*, and allow direct connections"
}

/// Parts of Freshet that a process runs.
package enum ProcessRole: String, CaseIterable, Sendable {
    case ingest, workers, delivery, api, all

    package var runsIngest: Bool { self == .ingest || self == .all }
    package var runsWorkers: Bool { self == .workers || self == .all }
    package var runsDelivery: Bool { self == .delivery || self == .all }
    package var runsAPI: Bool { self == .api || self == .all }
}

extension PostgresConfiguration {
    /// The connection string; nil if it is empty.
    package var url: String? {
        get { connectionString.isEmpty ? nil : connectionString }
        set { connectionString = newValue ?? "" }
    }

    /// Time limit of a statement.
    var statementLimit: Duration {
        get { statementTimeout ?? .zero }
        set { statementTimeout = newValue }
    }
}

package struct KafkaSettings: Sendable {
    package var bootstrapServers: String?
    package var embedded = false
    package var group = "freshet"
    /// Properties of librdkafka that override Freshet's; they may hold passwords.
    @Redacted package var properties: [String: String] = [:]
    #if DEBUG
    /// Detours of connections, port by port, for tests with a proxy before an embedded broker.
    package var routes: [String: String] = [:]
    #endif
    package var deliveryTimeout = Duration.seconds(10)
    package var pollInterval = Duration.milliseconds(2)
    package var embeddedPartitions = 8
}

package struct TopicSettings: Sendable {
    package init() {}

    package var pushes = EventTopic.pushes.defaultName
    package var appChanges = EventTopic.appChanges.defaultName
    package var widgets = EventTopic.widgets.defaultName
    package var donations = EventTopic.donations.defaultName
    package var timelines = OutputTopic.timelines
    package var suggestions = OutputTopic.suggestions
    package var deadLetters = OutputTopic.deadLetters
    /// Written only if `workers.publishDecisions` says so.
    package var decisions = OutputTopic.decisions
    package var partitions = 12
    package var replicationFactor: Int?
    package var retention = Duration.seconds(7 * 86_400)

    /// Sorts of events of further input topics, by name.
    package var more: [String: String] = [:]
    /// Apps whose events an input topic may carry, by the topic's name.
    package var allowedApps: [String: String] = [:]

    /// The topics that ingest consumes.
    package var inputs: [String] { [pushes, appChanges, widgets, donations] + more.keys.sorted() }
}

package struct DeliverySettings: Sendable {
    /// Settings of the service; the keys and addresses of Apple's service are those below.
    package var service = DeliveryConfiguration()
    /// Keys that seal the tokens of devices: base64 of 32 bytes, by id.
    @Redacted package var tokenKeys: [String: String] = [:]
    /// Keys of apps at Apple's push notification service, by app: `TEAM/KEY/path of the .p8 file`.
    package var apnsKeys: [String: String] = [:]
    /// Bundle ids of apps besides their names, separated by `+`, by app.
    package var bundleIDs: [String: String] = [:]
    /// URLs in place of those of Apple's servers.
    package var apnsURL: String?
    package var apnsSandboxURL: String?
    package var trustRoots: String?
    /// Time within which devices are to fetch a change, for kinds without an objective of their own.
    package var objective = Duration.seconds(30)
}

package struct ProviderSettings: Sendable {
    /// Private, loopback and link-local addresses that providers may have: CIDR blocks or host names. None by default,
    /// so that a manifest cannot make Freshet call into the operator's network.
    package var allowPrivateNetworks: [String] = []
    package var connectTimeout = Duration.seconds(3)
    package var readTimeout = Duration.seconds(30)
    package var trustRoots: String?
}

package struct ConsoleSettings: Sendable {
    package var enabled = false
    /// Base64 of the secret that seals sessions.
    @Redacted package var key: String?
    package var port: Int?
    package var sessionTime = Duration.seconds(8 * 3_600)
    package var runbook: String?
    /// Links that sign in once, which no setting gives.
    package var links: ConsoleSignInLinks?
}

package enum LogFormat: String, CaseIterable, Sendable {
    case text, json
}

/// A value that is not printed, since it may hold a secret.
@propertyWrapper
package struct Redacted<Value: Sendable>: Sendable, CustomStringConvertible, CustomDebugStringConvertible,
    CustomReflectable
{
    package var wrappedValue: Value

    package init(wrappedValue: Value) {
        self.wrappedValue = wrappedValue
    }

    package var description: String { SettingKey.redacted }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
