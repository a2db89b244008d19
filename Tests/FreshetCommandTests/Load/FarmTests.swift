import Foundation
import Synchronization
import Testing
import WidgetModel

@testable import freshet

@Suite("What the processes of a load test use", .timeLimit(.minutes(5)))
struct FarmTests {
    @Test("the line of /proc/PID/stat", arguments: ["freshet", "a (b) c", ") 7 (", ""])
    func stat(name: String) throws {
        let line = "4711 (\(name)) S 4242 1 1 0 -1 4194560 100 0 0 0 250 50 1000 25 20 0 9 0 12345 1 1\n"
        let usage = try #require(ProcessUsage(stat: line, ticksPerSecond: 100))
        #expect(usage.name == name)
        #expect(usage.parent == 4242)
        #expect(usage.cpuSeconds == 3)
        #expect(usage.endedChildrenCPUSeconds == 10.25)
    }

    @Test("what is no such line", arguments: ["", "4711", "4711 (x) S", "4711 (x) S y 1 1 0 -1 0 0 0 0 0 1 2 3 4 5"])
    func noStat(line: String) {
        #expect(ProcessUsage(stat: line, ticksPerSecond: 100) == nil)
    }

    @Test("peak memory of /proc/PID/status")
    func status() {
        #expect(ProcessUsage.peakResidentBytes(status: "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t 1 kB\n") == 2_097_152)
        #expect(ProcessUsage.peakResidentBytes(status: "Name:\tx\nVmRSS:\t 1 kB\n") == nil)
        #expect(ProcessUsage.peakResidentBytes(status: "VmHWM:\tmany kB\n") == nil)
    }

    #if os(Linux)
    @Test("this very process")
    func own() throws {
        let own = ProcessInfo.processInfo.processIdentifier
        let usage = try #require(ProcessUsage(of: own))
        #expect(usage.cpuSeconds > 0)
        #expect(try #require(ProcessUsage.peakResidentBytes(of: own)) > 1 << 20)
        #expect(ProcessUsage(of: Int32.max) == nil)
        // No server process: nothing of it is counted.
        #expect(PostgresProcesses(backends: [own]) == nil)
    }
    #endif

    @Test("use between two moments takes the samples around them")
    func usage() throws {
        let start = ContinuousClock.now
        let made = Made(start: start)
        let sampler = UsageSampler { made.next() }
        for _ in 0..<5 { sampler.sample() }
        let usage = try #require(
            sampler.usage(from: start + .milliseconds(150), to: start + .milliseconds(250)))
        // From the sample at 100 ms to that at 300 ms.
        #expect(usage.service == 2)
        #expect(usage.database == nil)
        #expect(sampler.peakResidentBytes == 4)
    }

    private final class Made: Sendable {
        private let start: ContinuousClock.Instant
        private let count = Mutex(-1)

        init(start: ContinuousClock.Instant) { self.start = start }

        func next() -> (sample: UsageSampler.Sample, peakResidentBytes: Int?) {
            let number = count.withLock { count in
                count += 1
                return count
            }
            return (
                UsageSampler.Sample(time: start + .milliseconds(100 * number), service: Double(number)), number
            )
        }
    }
}

@Suite("The result of a load scenario", .timeLimit(.minutes(5)))
struct LoadResultTests {
    @Test("has the members that are promised, in their order, then its own")
    func keys() throws {
        var result = LoadResult(scenario: "drain")
        result.extras = [("cold", .null)]
        let members = try #require(result.json.objectValue).members.map(\.key)
        #expect(
            members == [
                "scenario", "events", "distinctTimelines", "wallSeconds", "eventsPerSecond", "timelinesPerSecond",
                "providerRequests", "providerTimelines", "walBytes", "serviceCPUSeconds", "databaseCPUSeconds",
                "peakResidentBytes", "latencyMilliseconds", "lost", "stale", "verified", "cold",
            ])
        #expect(result.json["timelinesPerSecond"] == .null)
        #expect(result.json["latencyMilliseconds"] == .null)
    }

    @Test("computes its rates")
    func rates() {
        var result = LoadResult(scenario: "drain")
        result.events = 1_000
        result.timelines = 500
        #expect(result.eventsPerSecond == 0)
        result.wallSeconds = 0.5
        result.latency = LoadResult.Latency(p50: 1, p90: 2, p99: 3, p999: 4, max: 5)
        #expect(result.json["eventsPerSecond"] == 2_000)
        #expect(result.json["timelinesPerSecond"] == 1_000)
        #expect(result.json["latencyMilliseconds"]?["p999"] == 4)
    }
}

@Suite("The answers of the sample provider to load tests", .timeLimit(.minutes(5)))
struct LoadAnswerTests {
    private let answer = LoadAnswer(now: Timestamp(microseconds: 1_790_000_000_000_000))

    private func body(_ ids: [String]) -> [UInt8] {
        let requests = ids.map {
            "{\"id\":\"\($0)\",\"kind\":\"Load1\",\"family\":\"systemSmall\",\"configuration\":{\"id\":\"no\"}}"
        }
        return Array("{\"requests\":[\(requests.joined(separator: ","))]}".utf8)
    }

    @Test("are timelines that the workers take, each different")
    func timelines() throws {
        let ids = [TimelineID(high: 1, low: 2), TimelineID(high: 3, low: 4)]
        let made = try #require(answer.answer(body(ids.map(\.description)), from: 7))
        #expect(made.kinds.map(\.name) == ["Load1"] && made.kinds.map(\.timelines) == [2])
        #expect(made.count == 2)
        let outcomes = try ProviderResponse.parse(made.bytes, requested: ids.map { RequestedTimeline($0) }).outcomes
        let hashes = try outcomes.map { outcome in
            guard case .timeline(let parsed) = outcome else { throw Missing() }
            #expect(parsed.entryCount == 3)
            #expect((600...700).contains(parsed.content.count), "\(parsed.content.count) bytes")
            // What the reader of the output topic makes of it.
            let value = Array("{\"timeline\":\"x\",".utf8) + parsed.content.dropFirst()
            #expect(LoadOutput.hash(ofEntriesIn: value[...]) == parsed.hash)
            return parsed.hash
        }
        #expect(Set(hashes).count == 2)
        let later = try #require(answer.answer(body(ids.map(\.description)), from: 9))
        #expect(later.bytes != made.bytes)
    }

    @Test(
        "is none to what is no request",
        arguments: [
            "", "{}", "[]", "{\"requests\":[]}", "{\"requests\":", "{\"requests\":[{\"id\":\"x\"}]}",
            "{\"requests\":[{\"kind\":\"x\"}]}",
        ])
    func malformed(text: String) {
        #expect(answer.answer(Array(text.utf8), from: 0) == nil)
    }

    private struct Missing: Error {}
}
