// SPDX-License-Identifier: Apache-2.0

package import KafkaClient
package import Logging
package import PostgresClient
import ServiceLifecycle
package import Waiting
import WidgetModel
import WidgetStore

/// Publishes dead letters to their topic, at least once each: a row is marked after the broker's acknowledgement. A
/// process leases the letters that it publishes, so that others publish other ones.
package final class DeadLetterForwarder: Service {
    /// Dead letters in one transaction.
    private static let batch = 100
    /// Tries after which a dead letter that Kafka refuses stays in the database.
    private static let tries = 5

    private let pool: PostgresPool
    private let producer: KafkaProducer
    private let topic: String
    private let signal: Signal
    private let interval: Duration
    /// Longer than the time limits of both sends.
    private let lease: Duration
    private let logger: Logger

    /// - Parameters:
    ///   - signal: signals new dead letters.
    ///   - interval: polling interval, since another process may have left some.
    ///   - deliveryTimeout: the producer's.
    package init(
        pool: PostgresPool, producer: KafkaProducer, topic: String, signal: Signal,
        interval: Duration = .seconds(10), deliveryTimeout: Duration = .seconds(30), logger: Logger
    ) {
        // A send returns within twice the time limit.
        lease = deliveryTimeout * 4 + .seconds(30)
        (self.pool, self.producer, self.topic) = (pool, producer, topic)
        (self.signal, self.interval, self.logger) = (signal, interval, logger)
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var failures = 0
            while !Task.isCancelled {
                let version = self.signal.version
                do {
                    while try await self.forward() {}
                    failures = 0
                } catch {
                    failures += 1
                    self.logger.warning("cannot forward dead letters", metadata: ["error": "\(error)"])
                }
                _ = try await self.signal.wait(past: version, timeout: self.interval, clock: ContinuousClock())
                if failures > 0 {
                    let backoff = Backoff(base: .milliseconds(200), cap: .seconds(10))
                    try await Task.sleep(for: backoff.delay(attempt: failures))
                }
            }
        }
    }

    /// Forwards one batch and returns whether there may be more. It holds neither a connection nor a transaction while
    /// it waits for Kafka, which may take as long as an outage: the letters are leased.
    func forward() async throws -> Bool {
        let rows = try await PostgresPool.inBackground {
            try await pool.query(.deadLettersToForward(limit: Self.batch, lease: lease))
        }
        guard !rows.isEmpty else { return false }
        let results = await send(rows)
        var (sent, failed): ([Int64], [Int64]) = ([], [])
        var refusals: [(id: Int64, error: String)] = []
        var trouble: KafkaError?
        for (row, result) in zip(rows, results) {
            switch result {
            case .success: sent.append(row.id)
            // A message that Kafka refuses is tried a limited number of times.
            case .failure(let error) where error.blamesMessage: refusals.append((row.id, "\(error)"))
            // Others are tried again in the next round.
            case .failure(let error):
                failed.append(row.id)
                trouble = trouble ?? error
            }
        }
        // A task of its own, since this one may be cancelled, which would leave the leases.
        try await Task { [sent, refusals, failed] in
            try await record(sent: sent, refusals: refusals, failed: failed)
        }.value
        if let trouble {
            logger.warning(
                "dead letters were not acknowledged", metadata: ["count": "\(failed.count)", "error": "\(trouble)"])
            return false
        }
        return !refusals.isEmpty || rows.count == Self.batch
    }

    /// Sends letters. A message that Kafka refuses is sent without its payload, which the row keeps.
    private func send(_ rows: [StoredDeadLetter]) async -> [Result<KafkaDelivery, KafkaError>] {
        var results = await producer.send(rows.map { Self.message($0.letter, topic: topic) })
        let refused = results.indices.filter { index in
            if case .failure(let error) = results[index] { error.blamesMessage } else { false }
        }
        guard !refused.isEmpty else { return results }
        let again = await producer.send(
            refused.map { Self.message(rows[$0].letter, topic: topic, isTruncated: true) })
        for (index, result) in zip(refused, again) { results[index] = result }
        return results
    }

    private func record(sent: [Int64], refusals: [(id: Int64, error: String)], failed: [Int64]) async throws {
        var pipeline = PostgresPipeline()
        if !sent.isEmpty { _ = pipeline.append(.deadLettersForwarded(sent)) }
        if !failed.isEmpty { _ = pipeline.append(.releaseDeadLetters(failed)) }
        let refused = refusals.isEmpty ? nil : pipeline.append(.deadLettersRefused(refusals, limit: Self.tries))
        let answers = try await PostgresPool.inBackground { [pipeline] in try await pool.run(pipeline) }
        guard let refused else { return }
        logger.error(
            "Kafka refuses dead letters: they stay in the database",
            metadata: [
                "count": "\(refusals.count)", "givenUp": "\(answers.rows(refused).count { $0 })",
                "error": "\(refusals[0].error)",
            ])
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
