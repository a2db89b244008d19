import ArgumentParser
import FreshetService
import PostgresClient
import WidgetModel
import WidgetStore

struct IngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Shows whether ingest is halted, and resumes it.",
        discussion: """
            Ingest halts if several apps at a time exceed their limit of dead letters, if too many events without an app \
            fail, or if too many events wait. Nothing is lost: dead letters are kept, and other events wait in Kafka.
            """,
        subcommands: [Show.self, Resume.self])

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows whether ingest is halted and why, and which apps are diverted.")

        @OptionGroup var output: OutputOptions

        func run() async throws {
            try await output.settings.withStore { store, _ in
                let halt = try await store.pool.query(ReadIngestHalt()).first
                let diversions = try await store.pool.query(
                    ListDiversions(countLimit: DeadLettersCommand.countLimit))
                if output.json {
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
            abstract: "Resumes ingest where it halted.",
            discussion: """
                Running processes notice within seconds. Diverted apps stay diverted until `freshet dead-letters \
                resume`. Ingest halts again if the cause persists.

                Example:
                  freshet ingest resume
                """)

        @OptionGroup var output: OutputOptions

        func run() async throws {
            try await output.settings.withStore { store, _ in
                var pipeline = PostgresPipeline()
                _ = pipeline.append(ForgetFailures(app: nil))
                let resumed = pipeline.append(ResumeIngest())
                let changed = try await store.pool.transaction(pipeline).affected(resumed) > 0
                if output.json {
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
