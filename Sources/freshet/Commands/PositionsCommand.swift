import ArgumentParser
import FreshetService
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
                one skips events.

                Examples:
                  freshet positions set freshet.pushes 3 1200
                  freshet positions set freshet.widgets 0 earliest
                """)

        @Argument(help: "The topic.")
        var topic: String

        @Argument(help: "The partition.", transform: OptionText.number(0...Int32.max))
        var partition: Int32

        @Argument(help: "The next offset to apply, or earliest.")
        var offset: String

        @OptionGroup var output: OutputOptions

        func validate() throws {
            guard offset == "earliest" || (Int64(offset).map { $0 >= 0 } ?? false) else {
                throw ValidationError("the offset \(offset): expected 0 or more, or earliest")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            guard settings.topics.inputs.contains(topic) else {
                throw CommandFailure(
                    .failure,
                    "\(Text.quoted(topic)) is not a topic that Freshet reads; expected one of "
                        + settings.topics.inputs.joined(separator: ", "))
            }
            _ = try await store.pool.execute(
                .setPosition(topic: topic, partition: partition, nextOffset: Int64(offset)))
            guard output.json else { return }
            Terminal.print([
                "topic": .string(topic), "partition": .count(partition), "nextOffset": .count(Int64(offset)),
            ])
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
                pool: store.pool, kafka: try settings.requiredKafka(), logger: LogSettings.ofCommands)
            try await check.accept(keepingPositions: keepPositions)
        }
    }
}
