// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import JSON
import Logging
import PostgresClient
import Synchronization
import Testing
import WidgetModel
import WidgetStore

@testable import FreshetService
@testable import KafkaClient
@testable import freshet

struct PrettyJSONTests {
    @Test("Short values stay on one line, long ones are indented, and nothing is lost")
    func layout() throws {
        let short: JSONValue = ["a": [1, 2], "b": "x"]
        #expect(short.pretty == #"{"a":[1,2],"b":"x"}"#)
        let long: JSONValue = [
            "list": .array((0..<40).map { .number(JSONNumber($0)) }),
            "text": .string(String(repeating: "x", count: 90)),
            "empty": [:],
        ]
        let text = long.pretty
        #expect(text.hasPrefix("{\n  \"list\": [\n    0,\n    1,"))
        #expect(text.hasSuffix("\"empty\": {}\n}"))
        #expect(try JSONValue.parse(text) == long)
    }

    @Test("Columns are as wide as their longest cell")
    func table() {
        let table = TextTable("A", "LONGER", "C", rows: [["wide one", "x", ""]])
        #expect(table.lines == ["A         LONGER  C", "wide one  x       "])
    }

    @Test("Cells show members of JSON without control characters")
    func cells() {
        let table = TextTable(
            [["a": "x\u{7}", "b": true, "c": [1, 2], "d": ["e": nil]]],
            columns: ["A": "a", "B": "b", "C": "c", "D": "d", "E": "e"])
        #expect(table.lines == ["A   B    C     D           E", "x   yes  1, 2  {\"e\":null}  -"])
    }
}

struct LineLogHandlerTests {
    @Test("Each message is one line of JSON with its metadata, whatever it contains")
    func lines() throws {
        let written = Mutex<[String]>([])
        let logger = Logger(label: "freshet") { label in
            LineLogHandler(
                format: .json, label: label, now: { Timestamp(microseconds: 0) },
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

    @Test("Every value is quoted, so that it cannot pass for another field or line")
    func values() throws {
        let written = Mutex<[String]>([])
        var logger = Logger(label: "freshet") { label in
            LineLogHandler(
                format: .text, label: label, now: { Timestamp(microseconds: 0) },
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
        "Errors end a command with the exit status of their cause",
        arguments: [
            (PostgresError(.connection, "m") as any Error, CommandStatus.unavailable),
            (PostgresError(.poolTimeout, "m"), .unavailable),
            (PostgresError(.server, "m", sqlState: "57P03"), .unavailable),
            (PostgresError(.server, "m", sqlState: "42601"), .failure),
            (PostgresError(.configuration, "m"), .configuration),
            (PostgresError(.migration, "m"), .configuration), (kafka(.messageTimedOut), .unavailable),
            (kafka(.invalidConfiguration), .configuration), (kafka(.messageTooLarge), .failure),
            (kafka(.unknownTopicOrPartition, isRetriable: true), .unavailable),
            (CommandFailure(settings: []), .configuration), (ManifestError(problems: []), .failure),
            (CancellationError(), .failure),
        ])
    func statuses(_ error: any Error, _ status: CommandStatus) {
        #expect(CommandFailure(explaining: error)?.status == status)
    }

    @Test("Messages of the argument parser are passed through")
    func parser() {
        #expect(CommandFailure(explaining: ValidationError("m")) == nil)
        #expect(CommandFailure(explaining: CleanExit.helpRequest()) == nil)
    }
}

struct CommandHelpTests {
    private static func all(_ command: any ParsableCommand.Type) -> [any ParsableCommand.Type] {
        [command] + command.configuration.subcommands.flatMap(all)
    }

    @Test("Every command has an abstract and accepts --help")
    func help() {
        for command in Self.all(Freshet.self) {
            #expect(!command.configuration.abstract.isEmpty, "\(command)")
            #expect(Freshet.helpMessage(for: command).contains("USAGE"), "\(command)")
        }
    }

    @Test(
        "A mistyped subcommand has a suggestion, whatever options follow",
        arguments: [
            (["explian", "--app", "x"], #"freshet has no command "explian"; did you mean "explain"?"#),
            (["kinds", "aply", "--dry-run"], #"freshet kinds has no command "aply"; did you mean "apply"?"#),
            (["help", "explian"], "did you mean"), (["kinds", "help", "xyz"], "`freshet kinds --help` lists all"),
            (["explain", "--app", "x"], nil), (["kinds", "--help"], nil), (["--version", "x"], nil), ([], nil),
            (["publish", "psh"], nil),
        ] as [([String], String?)])
    func mistyped(_ arguments: [String], _ problem: String?) {
        do throws(CommandFailure) {
            try Program.requireSubcommands(arguments, of: Freshet.self)
            #expect(problem == nil)
        } catch {
            #expect(error.status == .usage)
            #expect(problem.map { error.message.contains($0) } ?? false, "\(error.message)")
        }
    }

    @Test("Help groups the subcommands by their use")
    func groups() {
        let help = Freshet.helpMessage()
        #expect(Freshet.configuration.ungroupedSubcommands.isEmpty)
        for group in Freshet.configuration.groupedSubcommands {
            #expect(help.contains("\(group.name.uppercased()) SUBCOMMANDS:"), "\(help)")
        }
    }

    @Test(
        "Help shows the defaults of options, also of those that are converted",
        arguments: [
            (DemoCommand.self, "20000 by default"), (HealthCommand.self, "(default: 5s)"),
            (PublishCommand.self, "(default: systemSmall)"), (OptionsCommand.self, "(default: {})"),
            (KindsCommand.Stats.self, "(default: 1)"), (TokensCommand.Issue.self, "(default: 1h)"),
        ] as [(any ParsableCommand.Type, String)])
    func defaults(_ command: any ParsableCommand.Type, _ expected: String) {
        let words = Freshet.helpMessage(for: command).split(whereSeparator: \.isWhitespace).joined(separator: " ")
        #expect(words.contains(expected), "\(words)")
    }

    @Test("Every command that prints data has --json")
    func json() {
        // These print one line of JSON as soon as they listen, are watched by a person, or write files.
        let others = [
            "RunCommand", "KafkaCommand", "ProviderCommand", "DemoCommand", "PreviewCommand", "InitCommand",
        ]
        for command in Self.all(Freshet.self) where command.configuration.subcommands.isEmpty {
            guard !others.contains("\(command)") else { continue }
            #expect(Freshet.helpMessage(for: command).contains("--json"), "\(command)")
        }
    }

    @Test(
        "Options after the name of an event are read",
        arguments: [
            ["publish", "push", "--app", "a", "--user", "u", "--json", "--set", "api.port=1", "--config", "x.yaml"]
        ])
    func nesting(_ arguments: [String]) throws {
        let push = try #require(try Freshet.parseAsRoot(arguments) as? PublishCommand)
        #expect(push.options.json)
        #expect(push.options.settings.assignments == ["api.port=1"])
        #expect(push.options.settings.config == "x.yaml")
    }

    @Test(
        "The name of an event determines the required options",
        arguments: [
            ("push --user u", nil), ("push", "exactly one of --user"), ("push w1 --user u", "unexpected w1"),
            ("app-change --everyone", "expected --state"), ("app-change --everyone --state foreground", nil),
            ("widget placed --user u --device d w", "expected --kind"),
            ("widget placed --user u --device d --kind K w", nil), ("widget configured --user u w", "--configuration"),
            ("widget configured --user u --configuration {} w", nil), ("widget removed w", "expected --user"),
            ("widget viewed --user u", "expected the id"), ("widget environment --user u d", nil),
            ("stack changed --user u --device d home w1 w2", nil), ("stack changed --user u --device d home", nil),
            ("stack changed --user u home w1", "expected --device"),
            ("stack turned --user u --device d home", "expected"),
            ("stack turned --user u --device d home w1", nil), ("stack changed --user u --device d", "expected the id"),
            ("shortcuts replaced --user u --shortcuts []", nil),
            ("shortcuts replaced --user u", "expected --shortcuts"),
            ("shortcuts replaced --user u --shortcuts [1]", "/shortcuts/0"),
            ("interaction donated --user u --kind K", nil), ("interaction donated --user u", "expected --kind"),
            ("interaction donated --user u --kind K --time-zone Mars/X", "--time-zone: expected an IANA"),
            ("device registered --user u --channel {\"webhook\":true} d", nil),
            ("device registered --user u d", "expected --channel"), ("device unregistered --user u d", nil),
            ("stack chnaged --user u --device d home", "did you mean \"stack changed\"?"),
            ("widget", "expected push"), ("--stdin", nil), ("push --stdin", "--stdin: expected without"),
        ] as [(String, String?)])
    func events(_ line: String, _ problem: String?) {
        do {
            _ = try PublishCommand.parse(line.split(separator: " ").map(String.init) + ["--app", "a"])
            #expect(problem == nil)
        } catch {
            let message = PublishCommand.message(for: error)
            #expect(problem.map { message.contains($0) } ?? false, "\(message)")
        }
    }
}
