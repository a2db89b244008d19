import ArgumentParser
import Foundation
import WidgetModel

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

struct LoadEventsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "A synthetic stream of events as JSON lines on standard output, for other tools.",
        discussion: """
            One structured CloudEvent a line, with the Kafka topic and key that it belongs to as "topic" and "key" \
            (schemas/load-event.json). The stream follows from the options and the seed: the same ones give the same \
            bytes. "time" says when an event is to be sent, at --rate from --start on; lines are written as fast as \
            they are read.

            Examples:
              freshet load events --count 1000000 > events.jsonl
              freshet load events --count 1000 --distribution zipf:1.2+diurnal --audiences user=90,device=8,widget=2
              freshet load events --count 10000 | freshet publish --stdin
            """)

    @Option(help: "How many events.")
    var count = 1_000

    @Option(help: "What the stream follows from.")
    var seed: UInt64 = 1

    @Option(help: "Mean rate of the events' times, a second.")
    var rate = 1_000.0

    @Option(help: "The time of the first event, RFC 3339.")
    var start = "2026-01-01T00:00:00Z"

    @Option(help: "The app's bundle identifier.")
    var app = "com.example.load"

    @Option(help: "How many people the app has.")
    var users = 50_000

    @Option(help: "How many widgets each has.")
    var widgetsPerUser = 4

    @Option(
        help: "How many kinds the app has (Load0, Load1, …), or their names, with commas between them.")
    var kinds = "20"

    @OptionGroup var stream: StreamOptions

    func validate() throws {
        try LoadOptions.check("--count", count, in: 0...1_000_000_000_000)
        try LoadOptions.check("--users", users, in: 1...1_000_000_000)
        try LoadOptions.check("--widgets-per-user", widgetsPerUser, in: 1...1_000)
        guard rate >= 0.001, rate <= 1e9 else { throw ValidationError("--rate \(rate): expected 0.001 to 1000000000") }
        guard let time = Timestamp(rfc3339: start) else {
            throw ValidationError("--start \(start): expected a time such as 2026-01-01T09:00:00Z")
        }
        // Behind it the lines' times could not be written.
        guard time.microseconds < 8_000_000_000 * 1_000_000, Double(count) / rate < 1e10 else {
            throw ValidationError("--start \(start): the stream ends too late")
        }
        try Check.identifier(app, "--app")
        _ = try kindNames()
    }

    private func kindNames() throws -> [String] {
        if let number = Int(kinds) {
            try LoadOptions.check("--kinds", number, in: 1...100_000)
            return StreamPopulation.kindNames(number)
        }
        let names = kinds.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        for name in names { try Check.identifier(name, "--kinds") }
        return names
    }

    func run() throws {
        let population = StreamPopulation(
            app: app, users: users, widgetsPerUser: widgetsPerUser, kinds: try kindNames())
        let plan = try stream.plan(of: population, rate: rate, seed: seed)
        var writer = StreamLineWriter(plan, start: Timestamp(rfc3339: start) ?? Timestamp(microseconds: 0))
        // A reader that has had enough is told by EPIPE.
        signal(SIGPIPE, SIG_IGN)
        var stream = SyntheticStream(plan)
        var block: [UInt8] = []
        block.reserveCapacity(1 << 17)
        for _ in 0..<count {
            guard let event = stream.next() else { break }
            writer.write(event, to: &block)
            if block.count >= 1 << 16 {
                guard try BlockOutput.write(block) else { return }
                block.removeAll(keepingCapacity: true)
            }
        }
        _ = try BlockOutput.write(block)
    }
}

/// Standard output in blocks, for what is too much to print line by line.
enum BlockOutput {
    /// Writes all of it.
    ///
    /// - Returns: false when nobody reads any more.
    /// - Throws: ``CommandFailure`` when it cannot be written: a full disk, say.
    static func write(_ bytes: [UInt8]) throws(CommandFailure) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = rest.withUnsafeBytes { systemWrite(STDOUT_FILENO, $0.baseAddress, $0.count) }
            if written < 0 {
                let code = errno
                if code == EINTR { continue }
                if code == EPIPE { return false }
                throw CommandFailure(.failure, "standard output cannot be written: \(String(cString: strerror(code)))")
            }
            rest = rest.dropFirst(written)
        }
        return true
    }

    private static func systemWrite(_ descriptor: Int32, _ address: UnsafeRawPointer?, _ count: Int) -> Int {
        #if canImport(Darwin)
        Darwin.write(descriptor, address, count)
        #else
        Glibc.write(descriptor, address, count)
        #endif
    }
}
