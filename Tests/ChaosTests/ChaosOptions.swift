import Foundation
import TestSupport

/// What a run is to do; `deploy/local/chaos` says it in the environment.
struct ChaosOptions: Sendable {
    enum Mode: String, Sendable {
        /// A seeded schedule of all sorts of faults.
        case random
        /// Everything of Freshet is killed and PostgreSQL crashes, again and again.
        case killAll = "kill-all"
        /// Wrong behaviour is injected, one after the other; the checker must notice each.
        case mutations
    }

    var mode: Mode?
    var seed: UInt64 = 1
    /// How long faults go on; healing and the final check come after.
    var duration = Duration.seconds(40)
    /// Of the mode `killAll`.
    var rounds = 20
    /// Events a second.
    var rate = 60
    /// Average time between two faults.
    var faultInterval = Duration.milliseconds(2_500)
    /// A real Kafka; nil: an embedded one. Faults of brokers are then left to whoever runs it.
    var bootstrapServers: String?
    /// Of librdkafka, for a real Kafka (TLS, SASL …).
    var kafkaProperties: [String: String] = [:]
    /// Wrong behaviour that is injected.
    var mutation: Mutation?
    /// How long all may take to come to rest after the healing. It takes 5 to 20 seconds.
    var patience = Patience.limit
    /// One of these is to be violated: the run ends as soon as it is, and nothing is kept of it. Empty: none.
    var expected: Set<Invariant> = []
    /// Of the mode `mutations`: names of those to inject; empty: each.
    var mutations: [String] = []
    /// Keep the directory even of a run in which all held.
    var keeps = false

    /// From the environment; mode is nil when nothing asks for a long run.
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
        options.keeps = value("KEEP") != nil
        return options
    }
}
