import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetAPI
import WidgetStore

/// What `/health/ready` looks at.
enum NodeReadiness {
    static func checks(
        pool: PostgresPool, kafka: KafkaConfiguration, topics: TopicSettings, ingest: IngestService?,
        workers: WorkerStatistics? = nil, logger: Logger
    ) -> [ReadinessCheck] {
        var checks = [
            ReadinessCheck(name: "postgres") {
                do {
                    let takesWrites = try await pool.query(TakesWrites()) == [true]
                    // Who only reads may do so from a standby.
                    let writes = ingest != nil || workers != nil
                    return writes && !takesWrites ? "the server takes no writes" : nil
                } catch {
                    return (error as? PostgresError)?.message ?? "\(error)"
                }
            },
            ReadinessCheck(name: "migrations") {
                do throws(PostgresError) {
                    let pending = try await PostgresMigrator(migrations: StoreMigrations.all).check(on: pool).pending
                    return pending.isEmpty ? nil : SchemaCheck.message(pending: pending)
                } catch {
                    return error.message
                }
            },
            ReadinessCheck(name: "kafka") {
                let admin = KafkaAdmin(configuration: kafka, timeout: .milliseconds(2_500), logger: logger)
                do throws(KafkaError) {
                    _ = try await admin.describe(topics: topics.all)
                    return nil
                } catch {
                    return error.description
                }
            },
        ]
        if let ingest {
            checks.append(
                ReadinessCheck(name: "ingest") {
                    if let halt = ingest.halt { return "\(halt)" }
                    let statistics = ingest.statistics.snapshot
                    guard statistics.assignedPartitions > 0 else { return "no partitions are assigned" }
                    return statistics.blockedBy.map { "the database does not take a batch: \($0)" }
                })
        }
        if let workers {
            checks.append(
                ReadinessCheck(name: "workers") {
                    workers.snapshot.claimTrouble.map { "the database does not let timelines be claimed: \($0)" }
                })
        }
        return checks
    }
}
