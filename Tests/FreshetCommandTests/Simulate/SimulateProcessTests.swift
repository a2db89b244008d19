// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import KafkaClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@Suite("freshet simulate", .tags(.process), .timeLimit(.patience))
struct SimulateProcessTests {
    private static let manifest = """
        app: com.example.simulated
        provider: {url: "https://widgets.example.com/bank"}
        kinds:
          - name: DueDate
            placeholder: {card: Card}
          - name: Weather
            sharing: shared
            variesBy: []
            placeholder: {city: City}
        """

    private static func folder() throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appending(path: "freshet-simulate-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data(manifest.utf8).write(to: folder.appending(path: "kinds.yaml"))
        return folder
    }

    /// A placement, and pushes every ten minutes of a day.
    private static var events: String {
        func line(_ type: String, _ minute: Int, _ data: String) -> String {
            let time = Timestamp(microseconds: 1_782_086_400_000_000) + .seconds(60 * minute)
            return
                #"{"type":"freshet.\#(type).v1","time":"\#(time.rfc3339)","data":{"app":"com.example.simulated",\#(data)}}"#
        }
        let environment = #"{"locale":"en-GB","timeZone":"Europe/London"}"#
        let placed = line(
            "widget.placed", 1,
            #""widget":"w","user":"u","device":"d","kind":"DueDate","family":"systemSmall","environment":\#(environment)"#
        )
        let others = (0..<140).flatMap { number in
            [
                line("push.received", 10 * number + 5, #""kinds":"all","audience":{"user":"u"}"#),
                line("widget.viewed", 10 * number + 9, #""widget":"w""#),
            ]
        }
        return ([placed] + others).joined(separator: "\n") + "\n"
    }

    @Test("The same seed prints the same, and the page has charts and no scripts")
    func people() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let page = folder.appending(path: "page.html")
        let arguments = [
            "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--from", "2026-06-22", "--days", "2",
            "--people", "10", "--seed", "5", "--json",
        ]
        let first = try await FreshetProcess.run(arguments + ["--report", page.path])
        #expect(first.status == 0, "\(first.err)")
        #expect(try await FreshetProcess.run(arguments).out == first.out)
        let report = try JSONValue.parse(first.out)
        #expect(report["people"]?.numberValue?.int64 == 10)
        let kinds = try #require(report["kinds"]?.arrayValue)
        #expect(kinds.compactMap { $0["name"]?.stringValue } == ["DueDate", "Weather"])
        #expect(kinds.allSatisfy { $0["views"]?.numberValue?.int64 ?? 0 > 0 && $0["ages"]?["p99"] != nil })
        let html = try String(contentsOf: page, encoding: .utf8)
        #expect(html.contains("<svg") && html.contains("DueDate") && !html.contains("<script"))
    }

    @Test(
        "The page of a report is accessible, in light and dark, and on a phone",
        .enabled(if: HeadlessBrowser.isInstalled, "Chromium is not installed"))
    func page() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let page = folder.appending(path: "page.html")
        let result = try await FreshetProcess.run([
            "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--from", "2026-06-22", "--days", "2",
            "--people", "20", "--report", page.path,
        ])
        #expect(result.status == 0, "\(result.err)")
        try await HeadlessBrowser.run("Tests/FreshetCommandTests/Simulate/report.py", page.absoluteString)
    }

    @Test(
        "A file of old events is simulated from the day of its first event, and one without events in the days is refused"
    )
    func oldEvents() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "events.jsonl")
        try Data(Self.events.utf8).write(to: file)
        let arguments = ["simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--events", file.path]
        let result = try await FreshetProcess.run(arguments + ["--people", "0", "--days", "2", "--json"])
        #expect(result.status == 0, "\(result.err)")
        let report = try JSONValue.parse(result.out)
        #expect(report["from"] == "2026-06-22T00:00:00Z" && report["widgets"]?.numberValue?.int64 == 1)
        let kind = try #require(report["kinds"]?.arrayValue?.first { $0["name"] == "DueDate" })
        // Pushes of a whole day, and not of one instant.
        #expect(kind["reloadsADay"]?.numberValue?.double ?? 0 > 5, "\(kind)")
        #expect(kind["views"]?.numberValue?.int64 == 140)
        let outside = try await FreshetProcess.run(arguments + ["--from", "2026-07-22"])
        #expect(outside.status == 1 && outside.err.contains("there are no events from 2026-07-22"), "\(outside.err)")
    }

    @Test("The sample provider and one over HTTP answer for people, whose figures are printed as a table")
    func answered() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let sample = try await FreshetProcess.run([
            "simulate", "--manifest", try #require(Repository.path("deploy/samples/kinds.yaml")), "--sample",
            "--people",
            "5", "--days", "1", "--from", "2026-06-22",
        ])
        #expect(sample.status == 0, "\(sample.err)")
        // Budgets hold for the samples' kinds.
        for text in ["DueDate", "Weather", "5 people", " of 25 to "] {
            #expect(sample.out.contains(text), "\(sample.out)")
        }
        try await withStubProvider { provider in
            provider.respond { request in
                let date = Timestamp.now()
                return .timelines(
                    request.ids.map { id in
                        [
                            "id": .string(id.description),
                            "policy": ["after": .string((date + .seconds(7_200)).rfc3339)],
                            "entries": [["date": .string(date.rfc3339), "content": .string(id.description)]],
                        ]
                    })
            }
            let result = try await FreshetProcess.run([
                "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--provider", provider.url,
                "--people", "5", "--days", "1", "--from", "2026-06-22", "--json",
            ])
            #expect(result.status == 0, "\(result.err)")
            let kinds = try #require(try JSONValue.parse(result.out)["kinds"]?.arrayValue)
            #expect(kinds.count == 2)
            for kind in kinds {
                // Due every two hours of the simulation, although the provider dates its answers today.
                let reloads = kind["reloadsADay"]?.numberValue?.double ?? 0
                #expect((6...40).contains(reloads), "\(kind)")
            }
        }
    }

    @Test("A replay shows that a smaller budget costs less and is less fresh")
    func replay() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "events.jsonl")
        try Data(Self.events.utf8).write(to: file)
        let result = try await FreshetProcess.run([
            "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--replay", "--events", file.path,
            "--from", "2026-06-22", "--warm-up", "0", "--budget", "DueDate=4", "--spacing", "DueDate=3h", "--json",
        ])
        #expect(result.status == 0, "\(result.err)")
        let runs = try #require(try JSONValue.parse(result.out)["runs"]?.arrayValue)
        #expect(
            runs.compactMap { $0["name"]?.stringValue }
                == ["baseline", "budget DueDate=4", "spacing DueDate=3h", "all changes"])
        let loads = runs.compactMap { $0["report"]?["providers"]?.arrayValue?.first?["timelines"]?.numberValue?.int64 }
        let stale = runs.compactMap {
            $0["report"]?["kinds"]?.arrayValue?.first?["staleness"]?["p95"]?.numberValue?.int64
        }
        #expect(loads.count == 4 && loads[0] > 20 && loads[1] == 5 && loads[2] <= 9 && loads[3] <= loads[1], "\(loads)")
        #expect(stale.count == 4 && stale[0] < stale[1], "\(stale)")
        #expect(!result.err.contains("changes nothing"), "\(result.err)")

        let unknown = try await FreshetProcess.run([
            "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--replay", "--events", file.path,
            "--from", "2026-06-22", "--budget", "DueDat=4",
        ])
        #expect(unknown.status == 64 && unknown.err.contains("DueDate"))
        for option in ["--days", "--stacks"] {
            let refused = try await FreshetProcess.run([
                "simulate", "--manifest", "kinds.yaml", "--replay", option, "1",
            ])
            #expect(refused.status == 64 && refused.err.contains(option))
        }
    }

    @Test("A replay warns of a change that changes no reload, and of developer mode, which lifts budgets")
    func idle() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let (file, manifest) = (folder.appending(path: "events.jsonl"), folder.appending(path: "kinds.yaml"))
        try Data(Self.events.utf8).write(to: file)
        func warnings(_ change: [String]) async throws -> String {
            let result = try await FreshetProcess.run(
                ["simulate", "--manifest", manifest.path, "--replay", "--events", file.path, "--from", "2026-06-22"]
                    + ["--warm-up", "0"] + change)
            #expect(result.status == 0, "\(result.err)")
            return result.err
        }
        let same = try await warnings(["--budget", "Weather=4"])
        let reason = "warning: budget Weather=4 changes nothing: no reload of these events reaches"
        #expect(same.contains(reason), "\(same)")
        let text = try String(contentsOf: manifest, encoding: .utf8)
        let lifted = text.split(separator: "\n", omittingEmptySubsequences: false).flatMap { line in
            line.hasPrefix("app:") ? [line, "developerMode: true"] : [line]
        }.joined(separator: "\n")
        try Data(lifted.utf8).write(to: manifest)
        let developer = try await warnings(["--budget", "DueDate=4"])
        #expect(developer.contains("budget DueDate=4 changes nothing: developerMode lifts budgets"), "\(developer)")
    }

    /// Publications of the timeline of ``events``' widget, and of a kind of the same name in another app.
    private static func publications(to topic: String) throws -> [KafkaMessage] {
        let kind = KindDefinition(
            name: "DueDate", providerURL: "https://widgets.example.com/bank", placeholder: ["card": "Card"])
        let content = #"{"entries":[{"content":1,"date":"2026-06-22T00:00:00Z"}],"policy":"never"}"#
        return try [("com.example.simulated", 1), ("com.example.simulated", 2), ("com.example.other", 1)].map {
            app, revision in
            let placement = WidgetPlacement(
                app: app, widget: "w", user: "u", device: "d", kind: "DueDate", family: .systemSmall,
                configuration: .empty, environment: try WidgetEnvironment(locale: "en-GB", timeZone: "Europe/London"))
            let identity = kind.resolve(placement).identity
            let event = TimelineUpdatedEvent(
                timeline: identity.id, identity: identity, revision: Int64(revision), storedAt: Timestamp.now(),
                content: Array(content.utf8))
            return KafkaMessage(topic: topic, value: event.data)
        }
    }

    @Test("A replay reads the events of Kafka, and shows what was really published beside them")
    func kafka() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let names = ["pushes", "appChanges", "widgets", "donations", "timelines"]
        try await withKafka(topics: names.map { "freshet.\($0)" }, partitions: 2) { kafka in
            var settings = ["--set", "kafka.bootstrapServers=\(kafka.configuration.bootstrapServers)"]
            for name in names { settings += ["--set", "topics.\(name)=\(kafka.name("freshet.\(name)"))"] }
            // The brokers order events of different topics by time: the placement comes first.
            let lines = Self.events.split(separator: "\n")
            for events in [lines.prefix(1), lines.dropFirst()] {
                let published = try await FreshetProcess.run(
                    ["publish", "--stdin", "--no-check"] + settings, environment: FreshetProcess.patientDelivery,
                    input: events.joined(separator: "\n") + "\n")
                #expect(published.status == 0, "\(published.err)")
                // People look after it was published.
                guard events.count == 1 else { continue }
                let producer = try KafkaProducer(
                    configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: quietLogger)
                let topic = kafka.name("freshet.timelines")
                for result in await producer.send(try Self.publications(to: topic)) { _ = try result.get() }
                await producer.shutdown()
            }
            let now = Timestamp.now()
            let result = try await FreshetProcess.run(
                [
                    "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--replay", "--json",
                    "--from", (now - .seconds(3_600)).rfc3339, "--to", (now + .seconds(3_600)).rfc3339,
                ] + settings)
            #expect(result.status == 0, "\(result.err)")
            let replay = try JSONValue.parse(result.out)
            let real = try #require(replay["real"]?.arrayValue)
            #expect(real.map { $0["name"]?.stringValue } == ["DueDate", "Weather"])
            #expect(real.map { $0["publications"]?.numberValue?.int64 } == [2, 0], "\(result.out)")
            #expect(real.allSatisfy { $0["fetches"] == .null && $0["ages"] == .null }, "there are no decisions")
            let run = try #require(replay["runs"]?.arrayValue?.first)
            let kind = try #require(run["report"]?["kinds"]?.arrayValue?.first)
            #expect(["timelines", "requests", "views"].map { kind[$0]?.numberValue?.int64 } == [1, 140, 140])
            #expect(kind["realPublicationAges"]?["p50"]?.numberValue != nil, "\(result.out)")
        }
    }

    @Test("A time span that ends before it begins, or is longer than a year, is refused")
    func span() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        for span in [["--to", "2020-01-01"], ["--from", "0001-01-01", "--to", "9999-01-01"]] {
            let result = try await FreshetProcess.run(
                ["simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--replay"] + span)
            #expect(result.status == 64, "\(result.err)")
            #expect(result.err.contains("up to 366 days after --from"))
        }
    }

    @Test("A replay of Kafka, also behind a run of markers, is like a replay of the same events in a file")
    func warmUp() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let file = folder.appending(path: "events.jsonl")
        try Data(Self.events.utf8).write(to: file)
        func kind(_ source: [String]) async throws -> JSONValue {
            // The placement and half of the pushes and views are before the span.
            let result = try await FreshetProcess.run(
                [
                    "simulate", "--manifest", folder.appending(path: "kinds.yaml").path, "--replay", "--json",
                    "--from", "2026-06-22T12:00:00Z", "--to", "2026-06-23T00:00:00Z", "--warm-up", "1",
                ] + source)
            #expect(result.status == 0, "\(result.err)")
            let run = try #require(try JSONValue.parse(result.out)["runs"]?.arrayValue?.first)
            return try #require(run["report"]?["kinds"]?.arrayValue?.first)
        }
        let names = ["pushes", "appChanges", "widgets", "donations", "timelines"]
        try await withKafka(topics: names.map { "freshet.\($0)" }, partitions: 2) { kafka in
            var settings = ["--set", "kafka.bootstrapServers=\(kafka.configuration.bootstrapServers)"]
            for name in names { settings += ["--set", "topics.\(name)=\(kafka.name("freshet.\(name)"))"] }
            let messages = try Self.events.split(separator: "\n").enumerated().map { number, line in
                let event = try JSONValue.parse(Array(line.utf8))
                let type = try #require(event["type"]?.stringValue)
                let time = try #require(event["time"]?.stringValue.flatMap { Timestamp(rfc3339: $0) })
                let headers = [
                    "ce_specversion": "1.0", "ce_id": "\(number)", "ce_source": "/test", "ce_type": type,
                    "ce_time": time.rfc3339, "content-type": "application/json",
                ]
                return KafkaMessage(
                    topic: kafka.name(type.contains(".push.") ? "freshet.pushes" : "freshet.widgets"),
                    key: Array("u".utf8), value: try #require(event["data"]).encoded,
                    headers: headers.map { KafkaHeader(name: $0.key, value: Array($0.value.utf8)) },
                    timestampMilliseconds: time.microseconds / 1_000)
            }
            // A message with a timestamp in nanoseconds counts with the one before it.
            var unusable = messages[1]
            unusable.timestampMilliseconds = 1_700_000_000_000_000_000
            let producer = try KafkaProducer(
                configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: quietLogger)
            for result in await producer.send([unusable] + messages[..<141]) { _ = try result.get() }
            // A run of offsets without messages in the middle of the log.
            for number in 0..<120 {
                guard let embedded = kafka.embedded else { break }
                let place = TopicPartition(topic: kafka.name("freshet.pushes"), partition: Int32(number % 2))
                try await RawRecordBatch(.commitMarker).produce(to: embedded, place)
            }
            for result in await producer.send(Array(messages[141...])) { _ = try result.get() }
            await producer.shutdown()
            let (replayed, read) = (try await kind(settings), try await kind(["--events", file.path]))
            #expect(replayed == read)
            #expect(replayed["requests"]?.numberValue?.int64 == 68, "\(replayed)")
        }
    }

    @Test("A replay shows what a running service really did, and unknown figures as such")
    func really() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let manifest = folder.appending(path: "bank.yaml").path
        let kinds = """
            app: \(Installation.app)
            developerMode: true
            provider: {url: "https://widgets.example.com/bank"}
            kinds: [{name: DueDate, placeholder: {card: Card}}]
            """
        try Data(kinds.utf8).write(to: URL(filePath: manifest))
        try await withInstallation { installation in
            let (process, _) = try await installation.run("--set", "workers.publishDecisions=true")
            let app = ["--app", Installation.app]
            func publish(_ arguments: [String], renders: Int) async throws {
                let published = try await FreshetProcess.run(
                    ["publish"] + arguments + app, environment: installation.environment)
                #expect(published.status == 0, "\(published.err)")
                try await eventually("\(renders) requests are served") {
                    try await installation.store.integer("SELECT rendered FROM timeline") == renders
                }
            }
            try await publish(
                ["widget", "placed", "--user", "u", "--device", "d", "--kind", "DueDate", "w"], renders: 1)
            for number in 2...4 { try await publish(["push", "--user", "u", "--kind", "DueDate"], renders: number) }
            try await publish(["widget", "viewed", "--user", "u", "w"], renders: 4)
            try await eventually("the view has arrived") {
                try await installation.store.integer("SELECT count(*) FROM timeline WHERE viewed_at IS NOT NULL") == 1
            }
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)

            func real(_ settings: [String] = []) async throws -> JSONValue {
                let now = Timestamp.now()
                let result = try await FreshetProcess.run(
                    [
                        "simulate", "--manifest", manifest, "--replay", "--json", "--warm-up", "0",
                        "--from", (now - .seconds(3_600)).rfc3339, "--to", (now + .seconds(60)).rfc3339,
                    ] + settings, environment: installation.environment)
                #expect(result.status == 0, "\(result.err)")
                return try #require(try JSONValue.parse(result.out)["real"]?.arrayValue?.first)
            }
            let whole = try await real()
            #expect(whole["publications"]?.numberValue?.int64 == 4 && whole["fetches"]?.numberValue?.int64 == 4)
            #expect(whole["failed"]?.numberValue?.int64 == 0 && whole["app"]?.stringValue == Installation.app)
            #expect(whole["ages"]?["p50"]?.numberValue != nil && whole["publicationAges"]?["p50"]?.numberValue != nil)
            // Without the topic of decisions, publications are known, and fetches are not.
            let partial = try await real(["--set", "topics.decisions=freshet.no-such-topic"])
            #expect(partial["publications"]?.numberValue?.int64 == 4 && partial["fetches"] == .null)
            #expect(partial["ages"] == .null && partial["publicationAges"]?["p50"]?.numberValue != nil)
        }
    }

    @Test("Exported messages stand beside a replay of exported events")
    func exported() async throws {
        let folder = try Self.folder()
        defer { try? FileManager.default.removeItem(at: folder) }
        let manifest = folder.appending(path: "kinds.yaml").path
        func replay(_ lines: String, _ arguments: [String] = []) async throws -> String {
            let file = folder.appending(path: "events.jsonl")
            try Data(lines.utf8).write(to: file)
            let result = try await FreshetProcess.run(
                [
                    "simulate", "--manifest", manifest, "--replay", "--events", file.path, "--from", "2026-06-22",
                    "--warm-up", "0",
                ] + arguments)
            #expect(result.status == 0, "\(result.err)")
            return result.out
        }
        #expect(try await !replay(Self.events).contains("really"))
        let time = (Timestamp(microseconds: 1_782_086_400_000_000) + .seconds(3_600)).rfc3339
        func message(_ type: String, _ members: String) -> String {
            #"{"type":"freshet.timeline.\#(type).v1","time":"\#(time)","data":{"app":"com.example.simulated","#
                + #""kind":"DueDate","timeline":"4b8f5b7e-7f0a-5c43-9a56-4f2f3d6d9f10"\#(members)}}"# + "\n"
        }
        let updated = try await replay(Self.events + message("updated", ""))
        #expect(updated.contains("really") && updated.contains("unknown: the topic of timelines"), "\(updated)")
        let decided = try await replay(
            Self.events + message("decided", #","decision":"reloaded""#)
                + message("decided", #","decision":"deferred""#),
            ["--json"])
        let real = try #require(try JSONValue.parse(decided)["real"]?.arrayValue?.first)
        #expect(real["fetches"]?.numberValue?.int64 == 1 && real["publications"]?.numberValue?.int64 == 1)
        #expect(real["deferred"]?.numberValue?.int64 == 1)
    }
}
