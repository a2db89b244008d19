// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import WidgetEvents
import WidgetModel

struct LoadEvents: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "A synthetic stream of events as JSON lines on standard output, for other tools.",
        discussion: """
            One structured CloudEvent a line, with the Kafka topic and key that it belongs to as "topic" and "key" \
            (schemas/load-event.json). The stream follows from the options and the seed: the same ones give the same \
            bytes. "time" says when an event is to be sent, at --rate from --start on; lines are written as fast as \
            they are read.

            Examples:
              freshet-load events --count 1000000 > events.jsonl
              freshet-load events --count 1000 --distribution zipf:1.2+diurnal --audiences user=90,device=8,widget=2
              freshet-load events --count 10000 | freshet publish --stdin
            """)

    @Option(help: "Number of events.", transform: OptionText.number(0...1_000_000_000_000))
    var count = 1_000

    @Option(help: "Seed of the stream.")
    var seed: UInt64 = 1

    @Option(help: "Mean rate of the events' times, a second.", transform: OptionText.number(0.001...1e9))
    var rate = 1_000.0

    @Option(help: "The time of the first event, RFC 3339.")
    var start = "2026-01-01T00:00:00Z"

    @Option(help: "The app's bundle identifier.")
    var app = LoadWorld.defaultApp

    @Option(help: "Number of people.", transform: OptionText.number(1...1_000_000_000))
    var users = 50_000

    @Option(help: "Number of widgets of each person.", transform: OptionText.number(1...1_000))
    var widgetsPerUser = 4

    @Option(
        help: "Number of kinds (Load0, Load1, …), or their names, separated by commas.")
    var kinds = "20"

    @OptionGroup var stream: StreamOptions

    func validate() throws {
        guard let time = Timestamp(rfc3339: start) else {
            throw ValidationError("--start \(start): expected a time such as 2026-01-01T09:00:00Z")
        }
        // Later times could not be written.
        guard time.microseconds < 8_000_000_000 * 1_000_000, Double(count) / rate < 1e10 else {
            throw ValidationError("--start \(start): the stream ends too late")
        }
        try Self.checkIdentifier(app, of: "--app")
        _ = try world()
    }

    private static func checkIdentifier(_ text: String, of option: String) throws {
        if let problem = Text.identifierProblem(text) { throw ValidationError("\(option) \(problem)") }
    }

    private func world() throws -> LoadWorld {
        if let number = Int(kinds) {
            guard (1...100_000).contains(number) else {
                throw ValidationError("--kinds \(number): expected 1 to 100000, or names")
            }
            return LoadWorld(app: app, users: users, widgetsPerUser: widgetsPerUser, kinds: number)
        }
        let names = kinds.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        for name in names { try Self.checkIdentifier(name, of: "--kinds") }
        return LoadWorld(app: app, users: users, widgetsPerUser: widgetsPerUser, kinds: names)
    }

    func run() throws {
        let plan = try stream.plan(of: world(), rate: rate, seed: seed)
        let start = Timestamp(rfc3339: start) ?? Timestamp(microseconds: 0)
        // A reader that closes the pipe causes EPIPE instead.
        signal(SIGPIPE, SIG_IGN)
        var block: [UInt8] = []
        for event in SyntheticStream(plan).prefix(count) {
            block += plan.line(of: event, from: start)
            guard block.count >= 1 << 16 else { continue }
            guard try Self.output(block) else { return }
            block.removeAll(keepingCapacity: true)
        }
        _ = try Self.output(block)
    }

    /// - Returns: false if the reader has closed the pipe.
    /// - Throws: ``CommandFailure`` if standard output cannot be written, such as to a full disk.
    private static func output(_ block: [UInt8]) throws(CommandFailure) -> Bool {
        var rest = block[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { write(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if written >= 0 {
                rest = rest.dropFirst(written)
            } else if errno == EPIPE {
                return false
            } else if errno != EINTR {
                throw CommandFailure(.failure, "standard output cannot be written: \(String(cString: strerror(errno)))")
            }
        }
        return true
    }
}

extension StreamPlan {
    /// An event as a line of JSON with its end: a structured CloudEvent, with `topic` and `key` as extension attributes
    /// (`schemas/load-event.json`).
    ///
    /// - Parameter start: time of the stream's start.
    func line(of event: StreamEvent, from start: Timestamp) -> [UInt8] {
        let content = event.event(in: world)
        var line = content.structured(
            id: "\(seed)-\(event.index)", source: "/freshet/load", time: start + event.arrival)
        line.removeLast()
        line += #","topic":""#.utf8
        line += content.type.topic.defaultName.utf8
        line += #"","key":"#.utf8
        line += JSONValue.string(event.key(in: world)).encoded
        line += "}\n".utf8
        return line
    }
}
