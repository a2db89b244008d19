import ArgumentParser
import Foundation
import FreshetService
import KafkaClient
import ServiceLifecycle
import WidgetModel

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
        let logger = values.log.logger()
        var partitions = Dictionary(
            uniqueKeysWithValues: values.topics.embedded.map { ($0, values.kafka.embeddedPartitions) })
        for (name, count) in topics { partitions[name] = count }
        let cluster = try EmbeddedKafka(logger: logger)
        defer { cluster.close() }
        for (name, count) in partitions.sorted(by: { $0.key < $1.key }) {
            try cluster.createTopic(name, partitions: count)
        }
        let properties = EmbeddedKafka.clientProperties.sorted { $0.key < $1.key }
            .map { JSONObject.Member(key: $0.key, value: .string($0.value)) }
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
