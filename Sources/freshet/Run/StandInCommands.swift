// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import KafkaClient
import SampleProvider
import ServiceLifecycle
import WidgetModel

struct ProviderCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provider",
        abstract: "Runs the sample timeline provider: a bank, Emoji Rangers and the weather.",
        discussion: """
            Serves POST /bank/timelines, /rangers/timelines, /weather/timelines and GET /stats. The seed determines its \
            answers. Prints one line of JSON with its port once it listens.

            Examples:
              freshet provider --port 8090
              freshet provider --change-every 5m --secret-file bank.secret
              freshet provider --latency 200ms --failing-requests 0.05
            """)

    @Option(help: "Address to listen on.")
    var host = "127.0.0.1"

    @Option(help: "Port to listen on; 0 lets the system choose.", transform: OptionText.number(0...65_535))
    var port = 8_090

    @Option(help: "Seed of the content.")
    var seed: UInt64 = 1

    @Option(help: "Delay of every answer, such as 50ms.", transform: OptionText.duration)
    var latency = Duration.zero

    @Option(help: "Share of requests that are answered with 503, from 0 to 1.", transform: OptionText.number(0.0...1))
    var failingRequests = 0.0

    @Option(
        help: "Interval at which each content changes, such as 5m; with every request by default.",
        transform: OptionText.duration)
    var changeEvery: Duration?

    @Option(
        help: ArgumentHelp("File with the secret that signs requests; unsigned ones are refused.", valueName: "file"),
        completion: .file())
    var secretFile: String?

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        let logger = try settings.load().settings.logger(label: "freshet.provider")
        let faults = SampleProvider.Faults(latency: latency, requestFailures: failingRequests)
        let listening = ListeningPort()
        let secret = try secretFile.map { try SigningSecret(file: $0) }
        let provider = SampleProvider(
            seed: seed, host: host, port: port,
            keys: secret.map { secret in
                Dictionary(uniqueKeysWithValues: SampleApp.allCases.map { ($0, secret.bytes) })
            } ?? [:],
            faults: faults, changeInterval: changeEvery, logger: logger,
            onListening: listening.listens(on:))
        let announcer = BackgroundService("announcer") {
            let port = try await listening.wait()
            Terminal.printLine(["pid": .count(ProcessInfo.processInfo.processIdentifier), "port": .count(port)])
            try await gracefulShutdown()
        }
        let service = listening.service(
            "provider", at: "the sample provider on \(host):\(port) (--host, --port)", provider)
        try await Program.run([service, announcer], logger: logger)
    }
}

struct KafkaCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kafka",
        abstract: "Runs the embedded Kafka cluster alone, for several Freshet processes on one machine.",
        discussion: """
            Prints one line of JSON with the bootstrap address and the librdkafka properties that make clients fast. The \
            cluster speaks Kafka's protocol without authentication on the loopback interface, and keeps the last 5 MiB of \
            a partition in memory.

            Examples:
              freshet kafka
              freshet kafka --topic freshet.pushes=16 --topic my.topic=4
            """)

    @Option(
        name: .customLong("topic"), parsing: .singleValue,
        help: ArgumentHelp(
            "A topic with its number of partitions, besides Freshet's own.", valueName: "name=partitions"),
        transform: Self.parse)
    var topics: [(name: String, partitions: Int)] = []

    @OptionGroup var settings: SettingsOptions

    private static func parse(_ text: String) throws -> (name: String, partitions: Int) {
        let parts = text.split(separator: "=", maxSplits: 1)
        guard parts.count == 2, let partitions = Int(parts[1]), (1...1_024).contains(partitions) else {
            throw ValidationError("--topic \(text): expected name=partitions, such as freshet.pushes=16")
        }
        return (String(parts[0]), partitions)
    }

    func run() async throws {
        let values = try settings.load().settings
        let logger = values.logger()
        var partitions = Dictionary(
            uniqueKeysWithValues: values.topics.embedded.map { ($0, values.kafka.embeddedPartitions) })
        for (name, count) in topics { partitions[name] = count }
        let cluster = try EmbeddedKafka(logger: logger)
        defer { cluster.close() }
        for (name, count) in partitions.sorted(by: { $0.key < $1.key }) {
            try cluster.createTopic(name, partitions: count)
        }
        let properties = EmbeddedKafka.clientProperties.sorted { $0.key < $1.key }
            .map { (key: $0.key, value: JSONValue.string($0.value)) }
        let announcer = BackgroundService("announcer") {
            Terminal.printLine([
                "pid": .count(ProcessInfo.processInfo.processIdentifier),
                "bootstrapServers": .string(cluster.bootstrapServers), "properties": .object(JSONObject(properties)),
            ])
            try await gracefulShutdown()
        }
        try await Program.run([announcer], logger: logger)
    }
}
