import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import WidgetAPI
import WidgetStore

/// What `/health/ready` looks at.
enum NodeReadiness {
    static func checks(
        pool: PostgresPool, kafka: KafkaConfiguration, topics: TopicSettings, ingest: IngestService?, logger: Logger
    ) -> [ReadinessCheck] {
        var checks = [
            ReadinessCheck(name: "postgres") {
                do {
                    _ = try await pool.withConnection { try await $0.simple("SELECT 1") }
                    return nil
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
                    return ingest.statistics.snapshot.assignedPartitions > 0 ? nil : "no partitions are assigned"
                })
        }
        return checks
    }
}
