// SPDX-License-Identifier: Apache-2.0

import Foundation
import Testing
import WidgetModel

/// A situation without other faults, so that nothing at all may go wrong in it.
struct Scenario: Sendable, CustomTestStringConvertible {
    let name: String
    /// Options that the situation needs.
    var prepare: @Sendable (inout ChaosOptions) -> Void = { _ in }
    let script: @Sendable (ChaosRun.Stage) async throws -> Void

    var testDescription: String { name }

    static let all = [transactions, wrongClock, largeAudience, goAway, failover, pausedApp]
    /// Scenarios that the short random run of the usual tests does not contain.
    static let separate = [largeAudience, failover, pausedApp]

    /// Producers are transactional: markers take offsets among the messages and at the ends of all logs.
    private static let transactions = Scenario(name: "transactions") { stage in
        try await happen(.transactions, .seconds(10), stage)
    }

    /// Devices with a wrong clock publish, and then correctly.
    private static let wrongClock = Scenario(name: "wrongClock") { stage in
        for clock in WrongClock.allCases { try await happen(.wrongClock(clock), .seconds(5), stage) }
    }

    /// A push for everybody reaches 6,000 timelines in one batch of ingest, beside workers that are handed over what it
    /// marks. Their provider is healthy, and takes so long that all of them take several leases.
    private static let largeAudience = Scenario(name: "largeAudience") { options in
        options.isAllInOne = true
        options.crowd = 100
        options.providerTimeout = .seconds(10)
        options.isHealthy = true
    } script: { stage in
        stage.report.fault("slow provider, large audience", "the provider of \(ChaosWorld.crowdApp) takes 1.5 s")
        stage.provider.set(.slow(.milliseconds(1_500)), for: ChaosWorld.crowdApp)
        try await stage.workload.reloadCrowd()
        try await Task.sleep(for: .seconds(20))
        try await stage.workload.reloadCrowd()
        try await Task.sleep(for: .seconds(10))
    }

    /// A provider's server ends each connection after a few requests, while several are under way.
    private static let goAway = Scenario(name: "goAway") { options in
        options.providerTimeout = .seconds(10)
        options.isHealthy = true
    } script: { stage in
        stage.provider.set(latency: .milliseconds(100))
        for requests in [1, 2, 5] { try await happen(.goAway(requests: requests), .seconds(5), stage) }
        let (ended, ignored) = stage.driver.goAways
        stage.report.say("\(ended) connections ended with GOAWAY, \(ignored) requests on them were not processed")
        if ended == 0 { stage.report.violated(.healthyProviders, "no connection has ended with GOAWAY") }
    }

    /// A standby that lacks the last second takes the database's place, under load.
    private static let failover = Scenario(name: "failover") { stage in
        try await Task.sleep(for: .seconds(3))
        try await happen(.failover, .seconds(1), stage)
        try await Task.sleep(for: .seconds(8))
    }

    /// A paused app has many due timelines. The audit walks them, and no statement takes so long that it is cancelled.
    private static let pausedApp = Scenario(name: "pausedApp") { options in
        // Less in the usual tests.
        options.pausedTimelines = options.mode == nil ? 200_000 : 1_000_000
        // Processes that serve their health also read statistics of the database.
        options.settings = [
            "FRESHET_POSTGRES_STATEMENT_TIMEOUT": "5s", "FRESHET_HEALTH_PORT": "0", "FRESHET_METRICS_INTERVAL": "2s",
            "FRESHET_WORKERS_AUDIT_INTERVAL": "2s",
            "FRESHET_WORKERS_AUDIT_SPACING": "10ms",
        ]
    } script: { stage in
        stage.report.fault("paused app", "\(stage.options.pausedTimelines) timelines of a paused app are due")
        try await Task.sleep(for: stage.options.mode == nil ? .seconds(15) : stage.options.duration)
        let slow = stage.fleet.residents.flatMap { member in
            ((try? String(contentsOf: member.log, encoding: .utf8)) ?? "").split(separator: "\n")
                .filter { $0.contains("statement timeout") }
        }
        stage.report.checked(.liveness)
        for line in slow { stage.report.violated(.liveness, "a statement took too long: \(line)") }
    }

    private static func happen(_ sort: Fault.Sort, _ length: Duration, _ stage: ChaosRun.Stage) async throws {
        try await stage.driver.happen(
            Fault(number: stage.report.faultCount + 1, start: stage.report.elapsed, length: length, sort: sort))
    }

    /// Runs the scenario on its own.
    func run(_ options: ChaosOptions) async throws -> ChaosReport {
        var options = options
        prepare(&options)
        return try await ChaosRun(options: options, label: name, script: script).run()
    }
}
