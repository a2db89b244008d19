// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel

#if canImport(FoundationXML)
import FoundationXML
#endif

extension Tag {
    @Tag static var process: Self
}

/// Small load scenarios, whose reports are compared with the final state of PostgreSQL.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct LoadProcessTests {
    /// A row of integers.
    private struct Integers: PostgresStatement {
        let sql = """
            SELECT ARRAY[
                (SELECT count(*) FROM timeline),
                (SELECT sum(requested)::int8 - count(*) FROM timeline),
                (SELECT count(*) FROM timeline t JOIN kind k ON k.id = t.kind_id
                 WHERE t.requested > t.rendered OR k.generation > t.generation),
                (SELECT coalesce(sum(next_offset), 0)::int8 FROM consumer_position),
                (SELECT sum(generation)::int8 FROM kind),
                (SELECT count(*) FROM dead_letter)] AS counts
            """

        func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [Int64] {
            try row.optionalArray("counts") ?? []
        }
    }

    /// Final state of PostgreSQL.
    private struct Found {
        var timelines, requested, stale, applied, generations, deadLetters: Int64

        init(_ pool: PostgresPool) async throws {
            let values = try #require(try await pool.query(Integers()).first)
            (timelines, requested, stale) = (values[0], values[1], values[2])
            (applied, generations, deadLetters) = (values[3], values[4], values[5])
        }
    }

    /// Settings, also of the processes of a scenario, with which no stall of the machine repeats what is under way.
    private static let patience = [
        "kafka.deliveryTimeout=5m", "workers.lease=15m", "delivery.timeout=50s", "delivery.lease=10m",
    ].flatMap { ["--set", $0] }

    /// Runs a scenario on a new database; returns its report and the final state.
    private func load(_ arguments: String...) async throws -> (report: JSONValue, found: Found) {
        try await withDatabase { database in
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString]
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("load-\(UUID().uuidString).html")
            defer { try? FileManager.default.removeItem(at: file) }
            let process = try FreshetProcess(
                arguments + Self.patience + ["--json", "--report", file.path], program: "freshet-load",
                environment: environment)
            let exit = try await process.end()
            let (out, err) = (process.standardOutput, process.standardError)
            #expect(exit == FreshetProcess.Exit(status: 0, isSignal: false), "\(out.suffix(2_000))\n\(err)")
            let report = try JSONValue.parse(out)
            #expect(report["lost"] == 0)
            let problems = SchemaCheck.problems(of: report, by: try SchemaCheck.schema("load-report.json"))
            #expect(problems == [])
            #expect(report["scenario"]?.stringValue == arguments[0])
            let page = try String(contentsOf: file, encoding: .utf8)
            #expect(XMLParser(data: Data(page.utf8)).parse() && page.contains("freshet-load \(arguments[0])"))
            #expect(!page.contains("http:") && !page.contains("https:"))
            #expect(!err.contains("\u{1B}"), "no progress bar without a terminal: \(err)")
            return (report, try await Found(database.pool))
        }
    }

    private func integer(_ report: JSONValue, _ path: String...) -> Int64? {
        path.reduce(report) { $0?[$1] ?? nil }?.numberValue?.int64
    }

    @Test("fairness: every event of both apps is applied, counted, rendered and measured")
    func fairness() async throws {
        let (report, found) = try await load("fairness", "--duration", "2", "--rate", "2", "--timelines", "500")
        // 400 ms of warm-up and 2 s, with the small app's stream twice and the large app's once.
        let events = try #require(integer(report, "events"))
        #expect(events == 2 * 5 + 480)
        #expect(found.requested == events && found.applied == events)
        #expect(found.timelines == 510 && found.stale == 0 && found.deadLetters == 0)
        #expect(integer(report, "small", "alone", "samples") == 4)
        #expect(integer(report, "small", "beside", "samples") == 4)
        #expect(integer(report, "big", "samples") == 400)
        let alone = try #require(report["small"]?["alone"]?["p99"]?.numberValue?.double)
        let beside = try #require(report["small"]?["beside"]?["p99"]?.numberValue?.double)
        let ratio = try #require(report["ratio"]?.numberValue?.double)
        #expect(alone > 0 && abs(ratio - beside / alone) < 0.01)
    }

    @Test("global: all timelines reach the bump's generation, and single reloads are measured without and during it")
    func global() async throws {
        let (report, found) = try await load("global", "--duration", "1", "--rate", "50", "--timelines", "3000")
        let events = try #require(integer(report, "events"))
        // One event is the reload of everyone, which timelines do not count.
        #expect(found.requested == events - 1 && found.applied == events)
        // One bump for each of the 20 kinds.
        #expect(found.generations == 20)
        #expect(found.timelines == 3_000 && found.stale == 0 && found.deadLetters == 0)
        let samples = try #require(integer(report, "singles", "alone", "samples"))
        // For at least a second; longer when the machine is busy.
        #expect(samples >= 49)
        let beside = try #require(integer(report, "singles", "beside", "samples"))
        // Events of the 200 ms of warm-up are counted but not measured.
        #expect(events - 1 - samples - beside == 10)
        // Apart from the few that were under way at the bump and stored after it.
        #expect(try #require(integer(report, "besideTimelines")) >= 2_950)
        #expect(try #require(report["regeneratedSeconds"]?.numberValue?.double) > 0)
    }

    @Test("latency: every event is measured, from its intended time to the commit")
    func latency() async throws {
        let (report, found) = try await load("latency", "--rate", "50", "--duration", "2", "--users", "200")
        // 400 ms of warm-up and 2 s.
        #expect(integer(report, "events") == 120 && integer(report, "measuredEvents") == 100)
        #expect(found.requested == 120 && found.applied == 120 && found.timelines == 800)
        #expect(report["service"] == "here" && report["measuredAt"] == "commit" && report["stale"] == 0)
        let verified = try #require(integer(report, "verified"))
        #expect(verified == integer(report, "distinctTimelines"))
        #expect(try #require(integer(report, "providerTimelines")) >= verified)
        let latency = try #require(report["latencyMilliseconds"])
        let percentiles = try ["p50", "p90", "p99", "p999", "max"].map {
            try #require(latency[$0]?.numberValue?.double)
        }
        #expect(percentiles[0] > 0 && percentiles == percentiles.sorted())
        #expect(try #require(report["samples"]?.arrayValue).isEmpty == false)
        #expect(try #require(integer(report, "walBytes")) > 0)
    }

    @Test("latency: ingest and workers may run in separate processes")
    func separate() async throws {
        let (report, found) = try await load(
            "latency", "--rate", "50", "--duration", "2", "--users", "200", "--separate", "--distribution",
            "zipf+bursty")
        let events = try #require(integer(report, "events"))
        #expect(events > 20 && found.requested == events && found.applied == events)
        #expect(report["service"] == "separate" && report["measuredAt"] == "output")
        #expect(integer(report, "verified") == integer(report, "distinctTimelines"))
        #expect(try #require(report["latencyMilliseconds"]?["p50"]?.numberValue?.double) > 0)
    }

    @Test("A given database and provider are used, and no others are started")
    func given() async throws {
        let provider = try FreshetProcess(["provider", "--port", "0"])
        let port = try #require(try await provider.firstLine()["port"]?.numberValue?.int64)
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("load-\(UUID().uuidString).html")
        defer { try? FileManager.default.removeItem(at: file) }
        try await withDatabase { database in
            let (status, out, err) = try await FreshetProcess.run(
                [
                    "latency", "--rate", "20", "--duration", "1", "--users", "20", "--set",
                    "postgres.url=\(database.connectionString)", "--provider", "http://127.0.0.1:\(port)", "--json",
                    "--report", file.path,
                ] + Self.patience, program: "freshet-load")
            #expect(status == 0, "\(err)")
            let report = try JSONValue.parse(out)
            #expect(report["lost"] == 0 && report["providerCPUSeconds"] == .null)
            #expect(try #require(integer(report, "providerTimelines")) >= 20)
            let page = try String(contentsOf: file, encoding: .utf8)
            #expect(page.contains("--set postgres.url=…") && !page.contains(database.connectionString))
        }
    }

    @Test("soak: sizes and memory are sampled, also while a transaction is held open")
    func soak() async throws {
        let (report, found) = try await load(
            "soak", "--rate", "100", "--duration", "6s", "--hold-xmin", "2s", "--users", "100")
        #expect(found.requested == 600 && found.applied == 600)
        let samples = try #require(report["samples"]?.arrayValue)
        // One a second, but less often where taking one takes long.
        #expect(!samples.isEmpty)
        for key in ["stateTableBytes", "stateIndexBytes", "residentBytes", "timelinesPerSecond"] {
            #expect(samples.allSatisfy { $0[key]?.numberValue.map { $0.double >= 0 } == true }, "\(key)")
        }
        #expect(report["spans"]?.arrayValue?.count == 1)
        #expect(try #require(integer(report, "held", "samples")) >= 150)
        #expect(try #require(integer(report, "sizes", "compact", "timeline", "tableBytes")) > 0)
    }

    @Test("events: the requested number of lines is written; a closed pipe is no error")
    func events() async throws {
        let (status, out, err) = try await FreshetProcess.run(
            ["events", "--count", "5000", "--seed", "3"], program: "freshet-load")
        #expect(status == 0 && err.isEmpty)
        #expect(out.split(separator: "\n").count == 5_000 && out.hasSuffix("}\n"))
        let again = try await FreshetProcess.run(["events", "--count", "5000", "--seed", "3"], program: "freshet-load")
        #expect(again.out == out)
        let pipe = Process()
        let errors = Pipe()
        pipe.executableURL = URL(fileURLWithPath: "/bin/sh")
        pipe.arguments = [
            "-c", "{ \"$0\" events --count 1000000000; echo \"status $?\" >&2; } | head -n 1 > /dev/null",
            try BuiltProgram.find("freshet-load").path,
        ]
        pipe.standardError = errors
        try pipe.run()
        let said = try #require(try errors.fileHandleForReading.readToEnd())
        #expect(String(decoding: said, as: UTF8.self) == "status 0\n")
        pipe.waitUntilExit()
    }

    @Test("ingest: every event is applied and counted", arguments: [false, true])
    func ingest(isDistinct: Bool) async throws {
        let (report, found) = try await load(
            "ingest", "--events", "3000", "--targets", isDistinct ? "all" : "50")
        // Two passes.
        #expect(found.requested == 6_000 && found.applied == 6_000 && found.deadLetters == 0)
        #expect(found.timelines == (isDistinct ? 3_000 : 50))
        #expect(integer(report, "events") == 3_000 && integer(report, "cold", "events") == 3_000)
        #expect(integer(report, "distinctTimelines") == (isDistinct ? 3_000 : 50))
        #expect(integer(report, "verified") == (isDistinct ? 3_000 : 50), "each has counted both passes' events for it")
        #expect(try #require(report["wallSeconds"]?.numberValue?.double) > 0)
    }

    @Test("drain: the parts are separate processes, and all published events are stored")
    func drain() async throws {
        let (report, found) = try await load(
            "drain", "--users", "200", "--widgets-per-user", "2", "--kinds", "3", "--events", "500")
        // Two passes over the same events.
        #expect(found.requested == 1_000 && found.applied == 1_000)
        #expect(found.timelines == 400 && found.stale == 0 && found.deadLetters == 0)
        let distinct = try #require(integer(report, "distinctTimelines"))
        #expect(integer(report, "events") == 500 && distinct > 200 && distinct <= 400)
        #expect(integer(report, "verified") == distinct && integer(report, "stale") == 0)
        #expect(integer(report, "cold", "verified") == distinct)
        #expect(try #require(integer(report, "providerTimelines")) >= distinct)
        #expect(try #require(integer(report, "walBytes")) > 0)
        #expect(try #require(report["wallSeconds"]?.numberValue?.double) > 0)
    }

    @Test("delivery: every change of both phases is pushed once, by one connection for each client")
    func delivery() async throws {
        let (report, found) = try await load("delivery", "--devices", "300", "--rate", "100", "--duration", "2")
        #expect(integer(report, "events") == 300 && found.timelines == 300)
        #expect(integer(report, "duplicates") == 0 && integer(report, "connections") == 2)
        #expect((report["latencyMilliseconds"]?["p99"]?.numberValue?.double ?? 0) > 0)
        for name in ["pushesPerSecond", "clientAlonePerSecond", "pushesToClientAlone"] {
            #expect((report[name]?.numberValue?.double ?? 0) > 0, "\(name)")
        }
    }

    @Test("Invalid scenarios are refused before anything starts")
    func refused() async throws {
        for (arguments, message) in [
            (["fairness", "--rate", "0"], "'--rate <rate>': expected 1 to 200"),
            (["global", "--timelines", "0"], "'--timelines <timelines>': expected 1 to 10000000"),
            (["ingest", "--events", "0"], "'--events <events>': expected 1 to 3000000"),
            (["latency", "--rate", "0"], "'--rate <rate>': expected 0.1 to 1000000"),
            (["latency", "--audiences", "everyone"], "--audiences everyone: each event is to be for one timeline"),
            (["latency", "--widgets-per-user", "4", "--kinds", "2"], "expected --audiences widget, or more --kinds"),
            (["soak", "--duration", "60s", "--hold-xmin", "2m"], "--hold-xmin 2m: expected 0s to 1m"),
            (["events", "--distribution", "normal"], "--distribution normal: expected uniform, zipf"),
            (["events", "--audiences", "people=1"], "unknown name people"),
        ] {
            let (status, _, err) = try await FreshetProcess.run(arguments, program: "freshet-load")
            #expect(status == 64 && err.contains(message), "\(err)")
        }
        try await withDatabase { database in
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString]
            let small = ["fairness", "--duration", "1", "--rate", "1", "--timelines", "10"] + Self.patience
            #expect(try await FreshetProcess.run(small, program: "freshet-load", environment: environment).status == 0)
            let again = try await FreshetProcess.run(small, program: "freshet-load", environment: environment)
            #expect(again.status == 1 && again.err.contains("the database holds timelines already"))
        }
    }
}
