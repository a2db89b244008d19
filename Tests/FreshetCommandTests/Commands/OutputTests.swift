import ArgumentParser
import KafkaClient
import Logging
import PostgresClient
import Synchronization
import Testing
import WidgetModel
import WidgetStore

@testable import FreshetService
@testable import freshet

struct PrettyJSONTests {
    @Test("short values stay on a line, long ones are laid out, and nothing is lost")
    func layout() throws {
        let short: JSONValue = ["a": [1, 2], "b": "x"]
        #expect(PrettyJSON.text(short) == #"{"a":[1,2],"b":"x"}"#)
        let long: JSONValue = [
            "list": .array((0..<40).map { .number(JSONNumber($0)) }),
            "text": .string(String(repeating: "x", count: 90)),
            "empty": [:],
        ]
        let text = PrettyJSON.text(long)
        #expect(text.hasPrefix("{\n  \"list\": [\n    0,\n    1,"))
        #expect(text.hasSuffix("\"empty\": {}\n}"))
        #expect(try JSONValue.parse(text) == long)
    }

    @Test("columns are as wide as they need to be")
    func table() {
        var table = TextTable("A", "LONGER", "C")
        table.add("wide one", "x", "")
        #expect(table.lines == ["A         LONGER  C", "wide one  x       "])
    }
}

struct LineLogHandlerTests {
    @Test("each message is one line of JSON with its metadata, and cannot be broken up by what it says")
    func lines() throws {
        let written = Mutex<[String]>([])
        let logger = Logger(label: "freshet") { label in
            LineLogHandler(
                .json, label: label, now: { Timestamp(microseconds: 0) },
                write: { line in
                    written.withLock { $0.append(line) }
                })
        }
        logger.warning(
            "two\nlines", metadata: ["count": "3", "list": ["a", "b"], "level": "mine", "nested": ["k": "v"]])
        logger.debug("not written")
        let lines = written.withLock { $0 }
        #expect(lines.count == 1 && !lines[0].contains("\n"))
        let document = try JSONValue.parse(lines[0])
        #expect(document["message"] == "two\nlines")
        #expect(document["level"] == "warning")
        #expect(document["metadata.level"] == "mine")
        #expect(document["list"] == ["a", "b"])
        #expect(document["nested"] == ["k": "v"])
        #expect(document["time"] == "1970-01-01T00:00:00Z")
    }

    @Test("every value is quoted, so that none can be taken for another field or line")
    func values() throws {
        let written = Mutex<[String]>([])
        var logger = Logger(label: "freshet") { label in
            LineLogHandler(
                .text, label: label, now: { Timestamp(microseconds: 0) },
                write: { line in
                    written.withLock { $0.append(line) }
                })
        }
        logger[metadataKey: "request"] = "r-1"
        logger.notice(
            "audit",
            metadata: [
                "who": "eve outcome=202 what=removeWidget\n1970 notice freshet: who=\"alice\" \u{202E}\u{2028}",
                "list": ["a\"b"], "odd key=": "x",
            ], source: "S")
        logger.warning("two\nlines \"quoted\"", source: "S")
        logger.debug("not written")
        #expect(
            written.withLock { $0 } == [
                #"1970-01-01T00:00:00Z notice freshet: list="[\"a\\\"b\"]" "odd key="="x" request="r-1" "#
                    + #"who="eve outcome=202 what=removeWidget\u{a}1970 notice freshet: who=\"alice\" \u{202e}\u{2028}" "#
                    + "[S] audit",
                #"1970-01-01T00:00:00Z warning freshet: request="r-1" [S] two\u{a}lines "quoted""#,
            ])
    }
}

struct CommandFailureTests {
    private static func kafka(_ code: KafkaError.Code, isRetriable: Bool = false) -> KafkaError {
        KafkaError(
            code: code, message: "m", isRetriable: isRetriable, context: KafkaError.Context(operation: "produce"))
    }

    @Test(
        "errors end a command with the status that says whose turn it is",
        arguments: [
            (PostgresError(.connection, "m") as any Error, CommandStatus.unavailable),
            (PostgresError(.poolTimeout, "m"), .unavailable),
            (PostgresError(.server, "m", sqlState: "57P03"), .unavailable),
            (PostgresError(.server, "m", sqlState: "42601"), .failure),
            (PostgresError(.configuration, "m"), .configuration),
            (PostgresError(.migration, "m"), .configuration), (kafka(.messageTimedOut), .unavailable),
            (kafka(.invalidConfiguration), .configuration), (kafka(.messageTooLarge), .failure),
            (kafka(.unknownTopicOrPartition, isRetriable: true), .unavailable),
            (SettingsError(problems: []), .configuration), (ManifestError(problems: []), .failure),
            (CancellationError(), .failure),
        ])
    func statuses(_ error: any Error, _ status: CommandStatus) {
        #expect(CommandFailure(explaining: error)?.status == status)
    }

    @Test("what the argument parser has to tell is left to it")
    func parser() {
        #expect(CommandFailure(explaining: ValidationError("m")) == nil)
        #expect(CommandFailure(explaining: CleanExit.helpRequest()) == nil)
    }
}

struct CommandHelpTests {
    private static func all(_ command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        [command] + command.configuration.subcommands.flatMap(all)
    }

    @Test("every command says what it does, and its help can be asked for")
    func help() {
        for command in Self.all(Freshet.self) {
            #expect(!command.configuration.abstract.isEmpty, "\(command)")
            #expect(Freshet.helpMessage(for: command).contains("USAGE"), "\(command)")
        }
    }

    @Test(
        "options of a subcommand are not taken by the one above it",
        arguments: [
            ["publish", "push", "--app", "a", "--user", "u", "--json", "--set", "api.port=1", "--config", "x.yaml"]
        ])
    func nesting(_ arguments: [String]) throws {
        let push = try #require(try Freshet.parseAsRoot(arguments) as? PublishCommand.Push)
        #expect(push.event.json)
        #expect(push.event.settings.assignments == ["api.port=1"])
        #expect(push.event.settings.config == "x.yaml")
    }
}
