import ArgumentParser
import PostgresClient
import WidgetModel
import WidgetStore

struct IngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Shows whether ingest is halted, and lets it go on.",
        discussion: """
            Ingest halts when several apps at a time make too many dead letters, when too many events that name no app \
            fail, and when more events wait than may. Nothing is lost: what caused it is kept, and the rest waits in \
            Kafka.
            """,
        subcommands: [Show.self, Resume.self])

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows whether ingest is halted and why, and which apps are diverted.")

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            try await settings.withStore { store, _ in
                let halt = try await store.pool.query(ReadIngestHalt()).first
                let diversions = try await store.pool.query(
                    ListDiversions(countLimit: DeadLettersCommand.countLimit))
                if json {
                    Terminal.print([
                        "halted": .bool(halt != nil), "halt": halt?.json ?? .null,
                        "diverted": .array(diversions.map(\.json)),
                    ])
                    return
                }
                Terminal.print(halt.map { "\($0)" } ?? "ingest is not halted")
                for diversion in diversions {
                    Terminal.print(
                        "diverted: \(diversion.app) since \(diversion.divertedAt.rfc3339), "
                            + "\(DeadLettersCommand.count(Int(diversion.waiting))) events wait; go on with "
                            + "`freshet dead-letters resume --app \(diversion.app)`")
                }
            }
        }
    }

    struct Resume: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Lets ingest go on where it stands.",
            discussion: """
                Running processes notice within seconds. Diverted apps stay diverted until `freshet dead-letters \
                resume`. It halts again when what caused it goes on.

                Example:
                  freshet ingest resume
                """)

        @Flag(help: "Print JSON.")
        var json = false

        @OptionGroup var settings: SettingsOptions

        func run() async throws {
            try await settings.withStore { store, _ in
                var pipeline = PostgresPipeline()
                _ = pipeline.append(ForgetFailures(app: nil))
                let resumed = pipeline.append(ResumeIngest())
                let changed = try await store.pool.transaction(pipeline).affected(resumed) > 0
                if json {
                    Terminal.print(["resumed": .bool(changed)])
                } else {
                    Terminal.print(changed ? "ingest goes on" : "ingest was not halted")
                }
            }
        }
    }
}

extension IngestHalt {
    fileprivate var json: JSONValue {
        [
            "cause": .string(cause.rawValue), "apps": .array(apps.map { .string($0) }), "detail": .string(detail),
            "haltedAt": .string(haltedAt.rfc3339), "command": .string(IngestHalt.command),
        ]
    }
}
