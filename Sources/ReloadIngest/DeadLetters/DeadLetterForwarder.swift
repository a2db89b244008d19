package import KafkaClient
package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetModel
package import WidgetStore

/// Publishes dead letters to their topic, at least once each: a row is marked after the broker's acknowledgement.
package final class DeadLetterForwarder: Service {
    /// Dead letters in one transaction.
    private static let batch = 100
    /// Tries after which a dead letter that Kafka refuses stays in the database.
    private static let tries = 5

    private let pool: PostgresPool
    private let producer: KafkaProducer
    private let topic: String
    private let signal: WorkSignal
    private let interval: Duration
    private let logger: Logger

    /// - Parameters:
    ///   - signal: signals new dead letters.
    ///   - interval: polling interval, since another process may have left some.
    package init(
        pool: PostgresPool, producer: KafkaProducer, topic: String, signal: WorkSignal,
        interval: Duration = .seconds(10), logger: Logger
    ) {
        (self.pool, self.producer, self.topic) = (pool, producer, topic)
        (self.signal, self.interval, self.logger) = (signal, interval, logger)
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var failures = 0
            while !Task.isCancelled {
                let mark = self.signal.mark(.timelines)
                do {
                    while try await self.forward() {}
                    failures = 0
                } catch {
                    failures += 1
                    self.logger.warning("cannot forward dead letters", metadata: ["error": "\(error)"])
                }
                _ = try await self.signal.wait(past: mark, timeout: self.interval, clock: ContinuousClock())
                if failures > 0 {
                    let backoff = Backoff(base: .milliseconds(200), cap: .seconds(10))
                    try await Task.sleep(for: backoff.delay(attempt: failures))
                }
            }
        }
    }

    /// Forwards one batch and returns whether there may be more.
    func forward() async throws -> Bool {
        let (producer, topic) = (producer, topic)
        return try await pool.withTransaction { connection in
            let rows = try await connection.query(.deadLettersToForward(limit: Self.batch))
            guard !rows.isEmpty else { return false }
            var results = await producer.send(rows.map { Self.message($0.letter, topic: topic) })
            // A message that Kafka refuses is sent without its payload, which the row keeps.
            for (index, result) in results.enumerated() {
                guard case .failure(let error) = result, error.blamesMessage else { continue }
                let message = Self.message(rows[index].letter, topic: topic, isTruncated: true)
                results[index] = await producer.send([message])[0]
            }
            let sent = zip(rows, results).compactMap { row, result in
                if case .success = result { row.id } else { nil }
            }
            if !sent.isEmpty { _ = try await connection.execute(.deadLettersForwarded(sent)) }
            // A message that Kafka still refuses is tried a limited number of times. Other errors are tried again in
            // the next round.
            var refusals: [(id: Int64, error: String)] = []
            var trouble: KafkaError?
            for (row, result) in zip(rows, results) {
                guard case .failure(let error) = result else { continue }
                if error.blamesMessage {
                    refusals.append((row.id, "\(error)"))
                } else {
                    trouble = trouble ?? error
                }
            }
            if !refusals.isEmpty {
                let given = try await connection.query(.deadLettersRefused(refusals, limit: Self.tries))
                self.logger.error(
                    "Kafka refuses dead letters: they stay in the database",
                    metadata: [
                        "count": "\(refusals.count)", "givenUp": "\(given.count { $0 })",
                        "error": "\(refusals[0].error)",
                    ])
            }
            if let trouble {
                self.logger.warning(
                    "dead letters were not acknowledged",
                    metadata: ["count": "\(rows.count - sent.count - refusals.count)", "error": "\(trouble)"])
                return false
            }
            if !refusals.isEmpty { return true }
            return rows.count == Self.batch
        }
    }

    /// The original message with its error and place in additional headers, in place of any with their names.
    ///
    /// - Parameter isTruncated: leaves the payload out, with the header `freshet-truncated`.
    static func message(_ letter: DeadLetter, topic: String, isTruncated: Bool = false) -> KafkaMessage {
        let added: [(name: String, value: String?)] = [
            ("freshet-error", "\(letter.code): \(letter.error)"), ("freshet-cause", letter.cause.rawValue),
            ("freshet-pointer", letter.pointer), ("freshet-app", letter.app), ("freshet-topic", letter.topic),
            ("freshet-partition", "\(letter.partition)"), ("freshet-offset", "\(letter.offset)"),
            ("freshet-truncated", isTruncated ? "\(letter.payload?.count ?? 0) bytes" : nil),
        ]
        let original = letter.headers.filter { header in !added.contains { $0.name == header.name } }
        return KafkaMessage(
            topic: topic, key: letter.key, value: isTruncated ? nil : letter.payload,
            headers: original.map { KafkaHeader(name: $0.name, value: $0.value) }
                + added.compactMap { name, value in value.map { KafkaHeader(name: name, value: $0) } })
    }
}

extension KafkaError {
    /// Whether the message itself is refused: too large, or not valid.
    fileprivate var blamesMessage: Bool {
        // INVALID_MSG_SIZE, INVALID_TIMESTAMP, INVALID_RECORD
        code == .messageTooLarge || [4, 32, 87].contains(code.number)
    }
}
