import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetAPI
import WidgetDelivery
import WidgetStore

extension FreshetNode.Wiring {
    /// Checks of `/health/ready`. Reasons why ingest stands still come from ``IngestStatus``.
    func readiness(phase: NodePhase, ingest: IngestService?) -> Readiness {
        var checks = [
            ReadinessCheck(name: "process") { phase.missing },
            database(isWritten: ingest != nil || settings.role.runsWorkers),
            migrations, cluster,
        ]
        if let ingest {
            checks.append(
                ReadinessCheck(name: "ingest") {
                    let obstacles = ingest.obstacles
                    guard obstacles.isEmpty else { return obstacles.joined(separator: "; ") }
                    return ingest.status.blockedBy.map { "the database does not take a batch: \($0)" }
                })
        }
        if settings.role.runsWorkers {
            checks += [
                ReadinessCheck(name: "workers") { [condition] in
                    condition.claimProblem.map { "the database does not let timelines be claimed: \($0)" }
                }, ReadinessCheck(name: "output") { [condition] in condition.outputProblem },
            ]
        }
        return Readiness(checks: checks)
    }

    /// - Parameter isWritten: false for a process that only reads, which may use a standby.
    private func database(isWritten: Bool) -> ReadinessCheck {
        ReadinessCheck(name: "postgres") { [pool] in
            do {
                let takesWrites = try await pool.query(.takesWrites()) == [true]
                return isWritten && !takesWrites ? "the server takes no writes" : nil
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
        ReadinessCheck(name: "kafka") { [kafka, topics = settings.topics, logger] in
            let admin = KafkaAdmin(configuration: kafka, timeout: .milliseconds(2_500), logger: logger)
            do throws(KafkaError) {
                let missing = topics.missing(from: try await admin.describe())
                return missing.isEmpty ? nil : "missing topics: \(missing.joined(separator: ", "))"
            } catch {
                return error.description
            }
        }
    }

    /// Checks of `/health/live`: the process's own loops make progress.
    func liveness(ingest: IngestService?) -> Liveness {
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
        if settings.role.runsWorkers {
            probes.append(LivenessProbe(name: "workers", limit: limit) { [heartbeat] in heartbeat.silence })
        }
        if settings.role.runsDelivery {
            probes.append(LivenessProbe(name: "delivery", limit: limit) { [deliveryPulse] in deliveryPulse.silence })
        }
        return Liveness(probes: probes)
    }
}
