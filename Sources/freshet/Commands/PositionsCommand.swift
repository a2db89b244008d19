// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import KafkaClient
import PostgresClient
import WidgetModel
import WidgetStore

struct PositionsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "positions",
        abstract: "Shows and sets the applied position of each Kafka partition.",
        subcommands: [Show.self, Assign.self, AcceptCluster.self])

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows the stored positions; Kafka's own committed offsets are for lag tools only.",
            discussion: "A partition without a next offset is read from its earliest message.")

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            output.print(
                try await store.query(.listPositions()).map { row in
                    [
                        "topic": .string(row.topic), "partition": .count(row.partition),
                        "nextOffset": .count(row.nextOffset), "epoch": .count(row.epoch),
                        "updatedAt": .time(row.updatedAt),
                    ]
                },
                columns: [
                    "TOPIC": "topic", "PARTITION": "partition", "NEXT OFFSET": "nextOffset", "EPOCH": "epoch",
                    "UPDATED": "updatedAt",
                ])
        }
    }

    struct Assign: StoreCommand {
        static let configuration = CommandConfiguration(
            commandName: "set",
            abstract: "Sets the position of one partition.",
            discussion: """
                The process that owns the partition goes on from there. An earlier position applies events again; a later \
                one skips events. readable skips a batch that cannot be read: it tries the offsets from the position on, 32 \
                at a time, which may take seconds, and goes on at the first one that can be read.

                Examples:
                  freshet positions set freshet.pushes 3 1200
                  freshet positions set freshet.widgets 0 earliest
                  freshet positions set freshet.widgets 0 readable
                """)

        @Argument(help: "The topic.")
        var topic: String

        @Argument(help: "The partition.", transform: OptionText.number(0...Int32.max))
        var partition: Int32

        @Argument(help: "The next offset to apply, or earliest, or readable.")
        var offset: String

        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard ["earliest", "readable"].contains(offset) || (Int64(offset).map { $0 >= 0 } ?? false) else {
                throw ValidationError("the offset \(offset): expected 0 or more, or earliest, or readable")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            guard settings.topics.inputs.contains(topic) else {
                throw CommandFailure(
                    .failure,
                    "\(Text.quoted(topic)) is not a topic that Freshet reads; expected one of "
                        + settings.topics.inputs.joined(separator: ", "))
            }
            let next: Int64? = try await offset == "readable" ? firstReadable(store, settings) : Int64(offset)
            let previous = try await position(in: store)
            _ = try await store.pool.execute(.setPosition(topic: topic, partition: partition, nextOffset: next))
            let place = TopicPartition(topic: topic, partition: partition)
            output.print(
                ["topic": .string(topic), "partition": .count(partition), "nextOffset": .count(next)],
                or: "\(place) continues at \(Self.text(next)) within seconds; it was at \(Self.text(previous))")
        }

        private static func text(_ offset: Int64?) -> String { offset.map { "offset \($0)" } ?? "its earliest message" }

        /// The next offset of the partition; nil for its earliest message.
        private func position(in store: WidgetStore) async throws -> Int64? {
            try await store.query(.listPositions()).first { $0.topic == topic && $0.partition == partition }?.nextOffset
        }

        /// The first offset that can be read behind the batch at the position.
        private func firstReadable(_ store: WidgetStore, _ settings: Settings) async throws -> Int64 {
            let kafka = try settings.requiredKafka()
            let place = TopicPartition(topic: topic, partition: partition)
            let bounds = try await KafkaAdmin(configuration: kafka, logger: .ofCommands).bounds(of: place)
            let begin = try await position(in: store) ?? bounds.lowerBound
            guard bounds.contains(begin) else {
                throw CommandFailure(.failure, "the log of \(place) has no message at its position \(begin)")
            }
            var said = ContinuousClock.now
            let found = try await KafkaReader(configuration: kafka, logger: .ofCommands)
                .firstReadable(of: place, from: begin) { next in
                    guard said.duration(to: .now) >= .seconds(1) else { return }
                    said = .now
                    Terminal.complain(
                        "\(place): offsets \(begin) to \(next - 1) of \(bounds.upperBound - 1) cannot be read")
                }
            guard found > begin else {
                throw CommandFailure(
                    .failure, "\(place) can be read at its position \(begin): nothing is to be skipped")
            }
            Terminal.complain("\(place): offsets \(begin) to \(found - 1) cannot be read, and are skipped")
            return found
        }
    }

    struct AcceptCluster: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Accepts another Kafka cluster than the one whose positions are stored.",
            discussion: """
                Offsets of one cluster mean nothing in another, so the stored positions are forgotten: each partition goes on \
                at its earliest message, and events that the new cluster still has are applied again. --keep-positions is for \
                the same logs under a new id, such as brokers restored with their disks. Processes that were refused start \
                afterwards; stop those that still use the old cluster first.

                Examples:
                  freshet positions accept-cluster
                  freshet positions accept-cluster --keep-positions
                """)

        @Flag(help: "Keep the stored positions: the new cluster has the same messages at the same offsets.")
        var keepPositions = false

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let check = ClusterCheck(
                pool: store.pool, kafka: try settings.requiredKafka(), logger: .ofCommands)
            try await check.accept(keepingPositions: keepPositions)
            output.print(
                ["accepted": true, "positionsKept": .bool(keepPositions)],
                or: keepPositions
                    ? "accepted the cluster; the positions are kept"
                    : "accepted the cluster; every partition continues at its earliest message")
        }
    }
}
