// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import PostgresClient
import WidgetModel
import WidgetStore

struct IngestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Shows halted topics, and resumes them.",
        discussion: """
            A topic is halted if several apps at a time exceed their limit of dead letters on it, if too many of its events \
            fail that no app can be charged with, or if too many wait. Nothing is lost: dead letters are kept, and other \
            events of the topic wait in Kafka.
            """,
        subcommands: [Show.self, Resume.self])

    struct Show: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Shows which topics are halted and why, and which apps are diverted.")

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let halts = try await store.query(.listHalts())
            let diversions = try await store.query(.listDiversions(countLimit: DeadLettersCommand.countLimit))
            if output.json {
                Terminal.print(["halted": .array(halts.map(\.json)), "diverted": .array(diversions.map(\.json))])
                return
            }
            for halt in halts { Terminal.print("\(halt)") }
            if halts.isEmpty { Terminal.print("no topic is halted") }
            for diversion in diversions {
                Terminal.print(
                    "diverted: \(diversion.app) since \(diversion.divertedAt.rfc3339), "
                        + "\(Figure.count(Int(diversion.waiting), limit: DeadLettersCommand.countLimit)) events wait"
                        + (diversion.fullAt.map { ", and more are dropped since \($0.rfc3339)" } ?? "")
                        + "; `freshet dead-letters resume --app \(diversion.app)` applies them")
            }
        }
    }

    struct Resume: StoreCommand {
        static let configuration = CommandConfiguration(
            abstract: "Resumes halted topics where they were halted.",
            discussion: """
                Running processes notice within seconds. Diverted apps stay diverted until `freshet dead-letters \
                resume`. A topic is halted again if the cause persists.

                Examples:
                  freshet ingest resume
                  freshet ingest resume --topic freshet.pushes
                """)

        @Option(help: "The topic to resume; all if none is given.")
        var topic: String?

        @OptionGroup var output: OutputOptions

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            var pipeline = PostgresPipeline()
            _ = pipeline.append(.forgetFailures(topic: topic))
            let handle = pipeline.append(.resumeTopics(topic: topic))
            let resumed = try await store.pool.run(pipeline, commits: true).rows(handle).sorted()
            output.print(
                ["resumed": .texts(resumed)],
                or: resumed.isEmpty ? "nothing was halted" : "resumed: \(resumed.joined(separator: ", "))")
        }
    }
}

extension IngestHalt {
    fileprivate var json: JSONValue {
        [
            "topic": .string(topic), "cause": .string(cause.rawValue), "apps": .texts(apps),
            "detail": .string(detail), "haltedAt": .time(haltedAt), "command": .string(command),
        ]
    }
}
