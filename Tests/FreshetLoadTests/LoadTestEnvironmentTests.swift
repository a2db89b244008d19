// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import freshet_load

@Suite("Resource usage of a load test's processes", .timeLimit(.patience))
struct ProcessUsageTests {
    @Test("A line of /proc/PID/stat is parsed", arguments: ["freshet", "a (b) c", ") 7 (", ""])
    func stat(name: String) throws {
        let line = "4711 (\(name)) S 4242 1 1 0 -1 4194560 100 0 0 0 250 50 1000 25 20 0 9 0 12345 1 1\n"
        let usage = try #require(ProcessUsage(stat: line, ticksPerSecond: 100))
        #expect(usage.name == name)
        #expect(usage.parent == 4242)
        #expect(usage.cpuSeconds == 3)
        #expect(usage.endedChildrenCPUSeconds == 10.25)
    }

    @Test(
        "Other lines are refused", arguments: ["", "4711", "4711 (x) S", "4711 (x) S y 1 1 0 -1 0 0 0 0 0 1 2 3 4 5"])
    func noStat(line: String) {
        #expect(ProcessUsage(stat: line, ticksPerSecond: 100) == nil)
    }

    @Test("Peak memory is read from /proc/PID/status")
    func status() {
        #expect(ProcessUsage.bytes("VmHWM:", status: "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t 1 kB\n") == 2_097_152)
        #expect(ProcessUsage.bytes("VmHWM:", status: "Name:\tx\nVmRSS:\t 1 kB\n") == nil)
        #expect(ProcessUsage.bytes("VmHWM:", status: "VmHWM:\tmany kB\n") == nil)
    }

    #if os(Linux)
    @Test("The usage of the current process can be read")
    func own() throws {
        let own = ProcessInfo.processInfo.processIdentifier
        let usage = try #require(ProcessUsage(of: own))
        #expect(usage.cpuSeconds > 0)
        #expect(try #require(ProcessUsage.peakResidentBytes(of: own)) > 1 << 20)
        #expect(ProcessUsage(of: Int32.max) == nil)
        // This process is not a server process, so nothing is counted.
        #expect(ProcessUsage.postmaster(of: [own]) == nil)
    }
    #endif

    @Test("Usage between two times is computed from the surrounding samples")
    func usage() throws {
        let start = ContinuousClock.now
        let samples = (0..<5).map { UsageSample(time: start + .milliseconds(100 * $0), service: Double($0)) }
        let usage = try #require(
            samples.usage(from: start + .milliseconds(150), to: start + .milliseconds(250)))
        // From the sample at 100 ms to that at 300 ms.
        #expect(usage.service == 2)
        #expect(usage.database == nil)
    }
}

@Suite("The result of a load scenario", .timeLimit(.patience))
struct LoadResultTests {
    @Test("The result has the promised members in order, then the scenario's own")
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

    @Test("The result computes its rates")
    func rates() {
        var result = LoadResult(scenario: "drain")
        result.events = 1_000
        result.timelines = 500
        #expect(result.eventsPerSecond == 0)
        result.wallSeconds = 0.5
        result.latency = LatencySummary(samples: 9, p50: 1, p90: 2, p99: 3, p999: 4, max: 5)
        #expect(result.json["eventsPerSecond"] == 2_000)
        #expect(result.json["timelinesPerSecond"] == 1_000)
        #expect(result.json["latencyMilliseconds"]?["p999"] == 4)
    }
}
