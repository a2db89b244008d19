// SPDX-License-Identifier: Apache-2.0

import JSON
package import KafkaClient
import Logging
package import PostgresClient
package import ReloadIngest
package import ReloadWorkers
package import WidgetDelivery
package import WidgetEvents
package import WidgetModel
import WidgetStore

// Conversion of the settings into the configurations of Freshet's parts.

extension Settings {
    /// - Throws: ``CommandFailure`` when the URL cannot be read; what it holds is not repeated.
    package func postgresConfiguration() throws(CommandFailure) -> PostgresConfiguration {
        do throws(PostgresError) {
            try postgres.validate()
        } catch {
            throw CommandFailure(.configuration, "postgres.url: \(error.message)")
        }
        return postgres
    }

    /// Names of the topics that events are published to.
    package var topicNames: [EventTopic: String] {
        Dictionary(uniqueKeysWithValues: zip(EventTopic.allCases, topics.inputs))
    }

    /// The brokers that the settings name; nil when they name none.
    package var namedKafka: KafkaConfiguration? {
        guard let servers = kafka.bootstrapServers else { return nil }
        var configuration = KafkaConfiguration(bootstrapServers: servers, properties: kafka.properties)
        #if DEBUG
        for (advertised, port) in kafka.routes {
            if let advertised = UInt16(advertised), let port = UInt16(port) { configuration.routes[advertised] = port }
        }
        #endif
        return configuration
    }

    /// - Throws: ``CommandFailure`` when the settings name no brokers.
    package func requiredKafka() throws(CommandFailure) -> KafkaConfiguration {
        guard let named = namedKafka else {
            throw CommandFailure(
                .configuration,
                "kafka.bootstrapServers is not set"
                    + (kafka.embedded ? ": name the address that the process with the embedded cluster logs" : ""))
        }
        return named
    }

    package var ingestConfiguration: IngestConfiguration {
        var configuration = ingest
        configuration.topics.pushes = topics.pushes
        configuration.topics.appChanges = topics.appChanges
        configuration.topics.widgets = topics.widgets
        configuration.topics.donations = topics.donations
        configuration.topics.more = topics.more.compactMapValues(EventTopic.init(rawValue:))
        configuration.topics.allowedApps = topics.allowedApps.mapValues { apps in
            Set(apps.split(separator: "|").map(String.init))
        }
        configuration.group = kafka.group
        configuration.deadLetterTopic = topics.deadLetters
        configuration.tokenKeys = DeviceTokenKeys(base64: delivery.tokenKeys)
        configuration.registrations = registrationRules
        return configuration
    }

    package var registrationRules: RegistrationRules {
        var rules = ingest.registrations
        rules.bundleIDs = delivery.bundleIDs.mapValues { Set($0.split(separator: "+").map(String.init)) }
        return rules
    }

    func consumerConfiguration(_ kafka: KafkaConfiguration) -> KafkaConsumerConfiguration {
        var configuration = KafkaConsumerConfiguration(
            kafka: kafka, group: self.kafka.group, maximumBatchMessages: ingest.maximumBatch)
        configuration.maximumBatchBytes = 16 << 20
        configuration.maximumWait = self.kafka.pollInterval
        configuration.bufferedBatches = 1
        configuration.pauseDelay = .seconds(2)
        return configuration
    }

    /// The configuration of a process's workers, with an identity of its own.
    func workerConfiguration() -> WorkerConfiguration {
        var configuration = workers
        configuration.worker = WorkerConfiguration().worker
        configuration.topic = topics.timelines
        configuration.suggestionsTopic = topics.suggestions
        configuration.widgetsTopic = topics.widgets
        configuration.rotation = stacks
        return configuration
    }

    /// - Throws: ``CommandFailure`` when a key of the push service cannot be read.
    package func deliveryConfiguration() throws(CommandFailure) -> DeliveryConfiguration {
        var configuration = delivery.service
        configuration.tokenKeys = DeviceTokenKeys(base64: delivery.tokenKeys)
        for (app, text) in delivery.apnsKeys { configuration.apnsKeys[app] = try APNsKey(setting: text, of: app) }
        if let url = delivery.apnsURL { configuration.apnsURLs[.production] = url }
        if let url = delivery.apnsSandboxURL ?? delivery.apnsURL.map(Self.sandboxURL) {
            configuration.apnsURLs[.sandbox] = url
        }
        return configuration
    }

    /// Server of the sandbox beside a server of production: Apple's with the same port, beside Apple's. A stand-in for
    /// the one must not leave the other to Apple.
    private static func sandboxURL(beside url: String) -> String {
        guard let parsed = try? ProviderURL(url), parsed.host == "api.push.apple.com" else { return url }
        return "https://api.sandbox.push.apple.com:\(parsed.port)"
    }

    /// - Throws: ``CommandFailure`` for an address that cannot be read.
    func egressPolicy() throws(CommandFailure) -> EgressPolicy {
        do throws(ModelError) {
            return try EgressPolicy(allowing: providers.allowPrivateNetworks)
        } catch {
            throw CommandFailure(.configuration, "providers.allowPrivateNetworks: \(error)")
        }
    }

    /// Limits of connections to the push service.
    package func apnsLimits() throws(CommandFailure) -> ConnectionLimits {
        let timeout = delivery.service.timeout
        return try limits(connect: timeout, read: timeout, delivery.trustRoots, "delivery.trustRoots")
    }

    /// Limits of connections to providers.
    package func connectionLimits() throws(CommandFailure) -> ConnectionLimits {
        try limits(
            connect: providers.connectTimeout, read: providers.readTimeout, providers.trustRoots, "providers.trustRoots"
        )
    }

    private func limits(
        connect: Duration, read: Duration, _ trustRoots: String?, _ key: String
    ) throws(CommandFailure) -> ConnectionLimits {
        if let proxyProblem { throw CommandFailure(.configuration, "\(proxyProblem); \(Self.proxyAdvice)") }
        var limits = ConnectionLimits(connectTimeout: connect, readTimeout: read)
        do throws(ModelError) {
            if let trustRoots { try limits.trust(roots: trustRoots) }
        } catch {
            throw CommandFailure(.configuration, "\(key): \(error)")
        }
        return limits
    }
}

extension TopicSettings {
    /// Required topics.
    package var all: [String] { inputs + [timelines, suggestions, deadLetters] }

    /// The type of events that each input topic carries.
    package var inputSorts: [EventTopic] {
        EventTopic.allCases + more.sorted { $0.key < $1.key }.compactMap { EventTopic(rawValue: $0.value) }
    }

    /// The topics of an embedded cluster.
    package var embedded: [String] { all + [decisions] }
}

extension APNsKey {
    /// Reads `TEAM/KEY/path of the .p8 file`.
    fileprivate init(setting text: String, of app: String) throws(CommandFailure) {
        let parts = text.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        let name = "delivery.apnsKeys, app \(Text.quoted(app))"
        guard parts.count == 3 else { throw CommandFailure(.configuration, "\(name): expected TEAM/KEY/path") }
        let pem: String
        do throws(CommandFailure) {
            pem = try String(file: parts[2], maximumBytes: 65_536)
        } catch {
            throw CommandFailure(.configuration, "\(name): \(parts[2]): \(error.message)")
        }
        self.init(teamID: parts[0], keyID: parts[1], privateKeyPEM: pem)
        guard isUsable else {
            throw CommandFailure(
                .configuration, "\(name): \(parts[2]) holds no P-256 key; expected a .p8 file as Apple issues it")
        }
    }
}
