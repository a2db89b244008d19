// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport

/// Options of a run, which `deploy/local/chaos` sets in the environment.
struct ChaosOptions: Sendable {
    enum Mode: String, Sendable {
        /// A seeded schedule of faults of every kind.
        case random
        /// All processes are killed and PostgreSQL crashes, repeatedly.
        case killAll = "kill-all"
        /// Defects are injected one after the other; the checker must notice each.
        case mutations
        /// One situation after the other, without other faults.
        case scenarios
    }

    var mode: Mode?
    var seed: UInt64 = 1
    /// Duration of the faults; the recovery and the final check follow.
    var duration = Duration.seconds(40)
    /// Number of rounds in the mode `killAll`.
    var rounds = 20
    /// Events per second.
    var rate = 60
    /// Average time between two faults.
    var faultInterval = Duration.milliseconds(2_500)
    /// A real Kafka; nil for an embedded one. Broker faults are then left to its operator.
    var bootstrapServers: String?
    /// librdkafka properties for a real Kafka (TLS, SASL …).
    var kafkaProperties: [String: String] = [:]
    /// Injected defect.
    var mutation: Mutation?
    /// Time limit for the recovery after the faults, which takes 5 to 20 seconds.
    var patience = Patience.limit
    /// Invariants of which one has to be violated: the run then ends at once and deletes its files. Empty for none.
    var expected: Set<Invariant> = []
    /// Names of the mutations in the mode `mutations`; empty for all.
    var mutations: [String] = []
    /// Names of the scenarios in the mode `scenarios`; empty for all.
    var scenarios: [String] = []
    /// Whether one process has all roles.
    var isAllInOne = false
    /// Number of people with many widgets of one app.
    var crowd = 0
    /// Time limit of the providers.
    var providerTimeout = Duration.seconds(2)
    /// Whether all providers are healthy, so that no timeline may fail.
    var isHealthy = false
    /// Number of due timelines of a paused app.
    var pausedTimelines = 0
    /// Further settings of the processes.
    var settings: [String: String] = [:]
    /// Keeps the directory even if all invariants hold.
    var keeps = false

    /// Reads the options from the environment; the mode is nil without a request for a long run.
    static func environment() -> ChaosOptions {
        let environment = ProcessInfo.processInfo.environment
        func value(_ name: String) -> String? {
            environment["FRESHET_CHAOS_\(name)"].flatMap { $0.isEmpty ? nil : $0 }
        }
        var options = ChaosOptions()
        options.mode = value("MODE").flatMap(Mode.init)
        if let seed = value("SEED").flatMap({ UInt64($0) }) { options.seed = seed }
        if let rounds = value("ROUNDS").flatMap({ Int($0) }) { options.rounds = rounds }
        if let rate = value("RATE").flatMap({ Int($0) }) { options.rate = rate }
        if options.mode != nil {
            options.duration = .seconds(value("SECONDS").flatMap { Int($0) } ?? 120)
            options.rate = value("RATE").flatMap { Int($0) } ?? 100
            options.faultInterval = .milliseconds(3_500)
        }
        options.bootstrapServers = value("BOOTSTRAP_SERVERS")
        for property in (value("KAFKA_PROPERTIES") ?? "").split(separator: ",") {
            let parts = property.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { options.kafkaProperties[String(parts[0])] = String(parts[1]) }
        }
        options.mutations = value("MUTATIONS")?.split(separator: ",").map(String.init) ?? []
        options.scenarios = value("SCENARIOS")?.split(separator: ",").map(String.init) ?? []
        options.keeps = value("KEEP") != nil
        return options
    }
}
