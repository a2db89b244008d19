import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetAPI
import WidgetDelivery
import WidgetStore

/// Checks of `/health/ready`. Reasons why ingest stands still come from ``IngestStatus``.
struct NodeReadiness {
    let pool: PostgresPool
    let kafka: KafkaConfiguration
    let topics: TopicSettings
    let phase: NodePhase
    /// Nil when the node runs no ingest.
    let ingest: IngestService?
    /// Nil when the node runs no workers.
    let output: OutputCondition?
    let workers: WorkerStatistics?
    let logger: Logger

    var checks: [ReadinessCheck] {
        var checks = [process, database, migrations, cluster]
        if let ingest {
            checks.append(
                ReadinessCheck(name: "ingest") {
                    let obstacles = ingest.obstacles
                    guard obstacles.isEmpty else { return obstacles.joined(separator: "; ") }
                    return ingest.statistics.snapshot.blockedBy.map { "the database does not take a batch: \($0)" }
                })
        }
        if let workers {
            checks.append(
                ReadinessCheck(name: "workers") {
                    workers.snapshot.claimTrouble.map { "the database does not let timelines be claimed: \($0)" }
                })
        }
        if let output { checks.append(ReadinessCheck(name: "output") { output.problem }) }
        return checks
    }

    private var process: ReadinessCheck {
        ReadinessCheck(name: "process") { [phase] in phase.missing }
    }

    private var database: ReadinessCheck {
        // A process that only reads may use a standby.
        let writes = ingest != nil || workers != nil
        return ReadinessCheck(name: "postgres") { [pool] in
            do {
                let takesWrites = try await pool.query(.takesWrites()) == [true]
                return writes && !takesWrites ? "the server takes no writes" : nil
            } catch {
                return (error as? PostgresError)?.message ?? "\(error)"
            }
        }
    }

    private var migrations: ReadinessCheck {
        ReadinessCheck(name: "migrations") { [pool] in
            do throws(PostgresError) {
                return try await SchemaCheck.problem(on: pool)
            } catch {
                return error.message
            }
        }
    }

    private var cluster: ReadinessCheck {
        ReadinessCheck(name: "kafka") { [kafka, topics, logger] in
            let admin = KafkaAdmin(configuration: kafka, timeout: .milliseconds(2_500), logger: logger)
            do throws(KafkaError) {
                let missing = topics.missing(from: try await admin.describe())
                return missing.isEmpty ? nil : "missing topics: \(missing.joined(separator: ", "))"
            } catch {
                return error.description
            }
        }
    }
}

/// Checks of `/health/live`: the process's own loops make progress.
enum NodeLiveness {
    /// - Parameters:
    ///   - workers: beats at each turn of the claim loop.
    ///   - delivery: beats at each turn of its loops.
    static func probes(
        settings: Settings, ingest: IngestService?, workers: Heartbeat?, delivery: DeliveryPulse?
    ) -> [LivenessProbe] {
        // Every step of these loops is bounded by the time limits of the database; what takes several times as long is
        // not the database's doing.
        let step =
            settings.postgres.acquireTimeout + settings.postgres.connectTimeout + settings.postgres.statementTimeout
        let limit = max(.seconds(300), step * 4 + settings.workers.pollInterval * 2)
        var probes: [LivenessProbe] = []
        if let ingest {
            probes.append(LivenessProbe(name: "ingest", limit: limit) { ingest.heartbeat.silence })
            // Its longest wait is that for a revocation: 10 s.
            probes.append(LivenessProbe(name: "consumer", limit: .seconds(120)) { ingest.consumerSilence })
        }
        if let workers { probes.append(LivenessProbe(name: "workers", limit: limit) { workers.silence }) }
        if let delivery { probes.append(LivenessProbe(name: "delivery", limit: limit) { delivery.silence }) }
        return probes
    }
}
