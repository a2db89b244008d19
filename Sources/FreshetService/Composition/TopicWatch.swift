package import KafkaClient
import Logging
import ServiceLifecycle
import WidgetModel

/// Logs brokers that do not answer and missing topics until both are fixed. The clients keep trying in the background.
struct TopicWatch: Service, CustomStringConvertible {
    let description = "topics"
    let kafka: KafkaConfiguration
    let topics: TopicSettings
    let logger: Logger
    var backoff = Backoff(base: .seconds(1), cap: .seconds(60))

    func run() async throws {
        do {
            try await cancelWhenGracefulShutdown {
                try await waitForTopics()
                try await gracefulShutdown()
            }
        } catch is CancellationError {
            return
        }
    }

    private func waitForTopics() async throws {
        var attempt = 0
        while true {
            let admin = KafkaAdmin(configuration: kafka, timeout: .seconds(5), logger: logger)
            let answer = try await answerOrCancellation { () -> Result<[KafkaTopicDescription], KafkaError> in
                do throws(KafkaError) {
                    return .success(try await admin.describe())
                } catch {
                    return .failure(error)
                }
            }
            attempt += 1
            switch answer {
            case .failure(let error):
                logger.warning("waiting for Kafka", metadata: ["attempt": "\(attempt)", "error": "\(error)"])
            case .success(let found):
                let missing = topics.missing(from: found)
                for topic in missing {
                    let compaction = topic == topics.timelines ? " with cleanup.policy=compact" : ""
                    logger.warning(
                        "a topic is missing: create it\(compaction), or let these credentials see it",
                        metadata: ["topic": "\(topic)"])
                }
                if missing.isEmpty {
                    if attempt > 1 { logger.notice("Kafka answers, and all topics are there") }
                    return
                }
            }
            try await Task.sleep(for: backoff.bound(attempt: attempt))
        }
    }
}

extension TopicSettings {
    /// Required topics that the cluster does not show.
    package func missing(from found: [KafkaTopicDescription]) -> [String] {
        let names = Set(found.map(\.name))
        return all.filter { !names.contains($0) }
    }
}

/// Awaits work that cannot be cancelled, until it ends or this task is cancelled. Abandoned work ends by its own time
/// limit.
///
/// - Throws: `CancellationError`.
func answerOrCancellation<Value: Sendable>(_ work: @escaping @Sendable () async -> Value) async throws -> Value {
    let (answers, continuation) = AsyncStream.makeStream(of: Value.self, bufferingPolicy: .bufferingNewest(1))
    Task {
        continuation.yield(await work())
        continuation.finish()
    }
    for await answer in answers { return answer }
    throw CancellationError()
}
