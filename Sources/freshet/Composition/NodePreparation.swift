import KafkaClient
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// What has to be there before a node's services start.
struct NodePreparation: Sendable {
    let pool: PostgresPool
    let kafka: KafkaConfiguration
    let topics: TopicSettings
    let logger: Logger
    var migrations = StoreMigrations.all
    var backoff = Backoff(base: .milliseconds(200), cap: .seconds(10))

    /// Waits for PostgreSQL as long as it takes, saying so; then checks, or applies, the migrations.
    ///
    /// - Throws: ``CommandFailure`` when migrations are missing and are not to be applied; `PostgresError` when waiting
    ///   cannot help.
    func prepareDatabase(migrate: Bool) async throws {
        let migrator = PostgresMigrator(migrations: migrations)
        let status = try await waitingForDatabase { try await migrator.check(on: pool) }
        guard !status.pending.isEmpty else { return }
        guard migrate else {
            throw CommandFailure(.configuration, SchemaCheck.message(pending: status.pending))
        }
        let applied = try await waitingForDatabase { try await migrator.apply(on: pool) }
        logger.notice(
            "migrations applied", metadata: ["migrations": .array(applied.map { "\($0.version) \($0.name)" })])
    }

    private func waitingForDatabase<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch let error as PostgresError
                where error.kind == .connection || error.kind == .poolTimeout || error.isRetriable
            {
                attempt += 1
                logger.warning(
                    "waiting for PostgreSQL", metadata: ["attempt": "\(attempt)", "error": "\(error)"])
                var generator = SystemRandomNumberGenerator()
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
            }
        }
    }

    /// Warns of what would otherwise show only as silence: topics that are not there.
    func checkTopics() async {
        let admin = KafkaAdmin(configuration: kafka, timeout: .seconds(10), logger: logger)
        do throws(KafkaError) {
            _ = try await admin.describe(topics: topics.all)
        } catch {
            guard error.code == .unknownTopicOrPartition else {
                // The clients go on trying in the background; until then the node is not ready.
                logger.warning("Kafka does not answer yet", metadata: ["error": "\(error)"])
                return
            }
            await nameMissingTopics(admin)
        }
    }

    private func nameMissingTopics(_ admin: KafkaAdmin) async {
        for topic in topics.all {
            do throws(KafkaError) {
                _ = try await admin.describe(topics: [topic])
            } catch {
                guard error.code == .unknownTopicOrPartition else { continue }
                let compaction = topic == topics.timelines ? " with cleanup.policy=compact" : ""
                logger.warning("a topic is missing: create it\(compaction)", metadata: ["topic": "\(topic)"])
            }
        }
    }
}
