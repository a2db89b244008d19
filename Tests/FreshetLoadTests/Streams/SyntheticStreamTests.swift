// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import freshet_load

@Suite(.timeLimit(.patience))
struct SyntheticStreamTests {
    private static let start = Timestamp(microseconds: 1_767_225_600_000_000)

    private func plan(
        _ distribution: String = "uniform", audiences: String = "user=90,device=8,widget=1,everyone=1",
        types: String = "push=2,foreground=1,background=1", seed: UInt64 = 1
    ) throws -> StreamPlan {
        StreamPlan(
            world: LoadWorld(app: "com.example.\"bank\"", users: 1_000, widgetsPerUser: 4, kinds: 20),
            distribution: try StreamDistribution.parse(distribution, day: 5),
            audiences: try WeightedChoice(audiences, of: StreamPlan.audiences),
            reasons: try WeightedChoice(types, of: StreamPlan.reasons), rate: 500, seed: seed)
    }

    private func bytes(_ plan: StreamPlan, count: Int) -> [UInt8] {
        SyntheticStream(plan).prefix(count).flatMap { plan.line(of: $0, from: Self.start) }
    }

    @Test("Equal seeds generate equal bytes, different ones others", arguments: ["uniform", "zipf+bursty", "diurnal"])
    func reproducible(distribution: String) throws {
        let first = bytes(try plan(distribution), count: 2_000)
        #expect(bytes(try plan(distribution), count: 2_000) == first)
        #expect(bytes(try plan(distribution, seed: 2), count: 2_000) != first)
        // The beginning does not depend on the number of events.
        #expect(first.starts(with: bytes(try plan(distribution), count: 100)))
    }

    /// The stream must not change between versions, so that measurements stay comparable.
    @Test func knownBeginning() throws {
        var plan = try plan("zipf:1.2+diurnal", audiences: "user=90,device=8,widget=2", types: "push", seed: 42)
        plan.world.app = "a"
        let events = Array(SyntheticStream(plan).prefix(4))
        #expect(events.map(\.index) == [0, 1, 2, 3])
        let hash = bytes(plan, count: 10_000).reduce(UInt64(14_695_981_039_346_656_037)) {
            ($0 ^ UInt64($1)) &* 1_099_511_628_211
        }
        #expect(hash == Self.knownHash)
    }
    private static let knownHash: UInt64 = 14_290_140_481_800_721_217

    @Test("Every line is a structured CloudEvent that satisfies the schema and describes the event")
    func lines() throws {
        let plan = try plan()
        let lines = bytes(plan, count: 3_000).split(separator: UInt8(ascii: "\n"))
        let schema = try SchemaCheck.schema("load-event.json")
        #expect(lines.count == 3_000)
        var topics: Set<String> = []
        for (event, line) in zip(SyntheticStream(plan), lines) {
            let document = try JSONValue.parse(Array(line))
            #expect(SchemaCheck.problems(of: document, by: schema) == [])
            let decoded = try Self.decode(Array(line), document)
            #expect(decoded.event == event.event(in: plan.world))
            #expect(decoded.id == "1-\(event.index)")
            #expect(decoded.time == Self.start + event.arrival)
            #expect(document["key"]?.stringValue == event.key(in: plan.world))
            #expect(document["topic"]?.stringValue == decoded.event.type.topic.defaultName)
            topics.insert(document["topic"]?.stringValue ?? "")
        }
        #expect(topics == ["freshet.pushes", "freshet.app-changes"])
    }

    @Test("The examples of the schema satisfy it")
    func examples() throws {
        let schema = try SchemaCheck.schema("load-event.json")
        for example in try #require(schema["examples"]?.arrayValue) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
        }
    }

    /// Decodes a line as ingest does in structured mode.
    private static func decode(_ line: [UInt8], _ document: JSONValue) throws -> DecodedEvent {
        let name = Array("content-type".utf8)
        let value = Array(FreshetEvent.structuredContentType.utf8)
        let head = name.count + value.count
        let type = try #require(document["type"]?.stringValue.flatMap { EventType(rawValue: $0) })
        return try EventDecoder().decode(
            bytes: name + value + line, value: head..<head + line.count,
            headers: [(name: 0..<name.count, value: name.count..<head)], topic: type.topic)
    }

    @Test("Audiences, people, widgets and kinds have the requested shares")
    func shares() throws {
        let events = Array(SyntheticStream(try plan()).prefix(200_000))
        let users = events.count { $0.audience == .user }
        let devices = events.count { $0.audience == .device }
        let foreground = events.count { $0.reason == .foreground }
        #expect(abs(users - 180_000) < 700 && abs(devices - 16_000) < 600 && abs(foreground - 50_000) < 1_000)
        var counts = [Int](repeating: 0, count: 4_000)
        for event in events { counts[event.widget] += 1 }
        // 50 each, with a standard deviation of 7.
        #expect(counts.allSatisfy { (10...100).contains($0) })
        // The sum of squared deviations has 3,999 degrees of freedom.
        let chiSquared = counts.reduce(0.0) { $0 + (Double($1) - 50) * (Double($1) - 50) / 50 }
        #expect(abs(chiSquared - 3_999) < 450)
    }

    @Test("Under Zipf's law the first person has the most events, and so has each person's first widget")
    func popularity() throws {
        let events = Array(SyntheticStream(try plan("zipf")).prefix(100_000))
        let world = try plan().world
        var people = [Int](repeating: 0, count: 1_000)
        var places = [Int](repeating: 0, count: 4)
        for event in events {
            people[world.person(of: event.widget)] += 1
            places[event.widget % 4] += 1
        }
        let share = ZipfRanks(count: 1_000, exponent: 1).share(of: 1)
        #expect(abs(Double(people[0]) / 100_000 - share) < 0.006)
        #expect(abs(Double(people[0]) / Double(people[9]) - 10) < 2)
        #expect(abs(Double(places[0]) / Double(places[3]) - 4) < 0.3)
    }

    @Test("Arrivals never go back and keep the mean rate", arguments: ["uniform", "bursty", "diurnal"])
    func arrivals(distribution: String) throws {
        let events = Array(SyntheticStream(try plan(distribution)).prefix(10_001))
        #expect(zip(events, events.dropFirst()).allSatisfy { $0.arrival <= $1.arrival })
        // 10,000 events at 500 per second are whole periods and days.
        #expect(abs(events[10_000].arrival / .seconds(1) - 20) < 0.05)
    }
}
