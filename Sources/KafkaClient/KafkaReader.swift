// SPDX-License-Identifier: Apache-2.0

package import Logging

/// Reads messages by their offsets. Each call makes a connection and a thread of its own, joins no group and commits
/// nothing.
package struct KafkaReader: Sendable {
    private let configuration: KafkaConfiguration
    private let logger: Logger

    package init(configuration: KafkaConfiguration, logger: Logger) {
        (self.configuration, self.logger) = (configuration, logger)
    }

    /// The message at an offset, as a batch of one; nil if the log has none there.
    ///
    /// - Parameter timeout: time limit of the whole call.
    /// - Throws: `timedOut` without an answer by then; `unknownTopicOrPartition`.
    package func message(
        topic: String, partition: Int32, offset: Int64, timeout: Duration = .seconds(3)
    ) async throws(KafkaError) -> KafkaBatch? {
        try await read(
            TopicPartition(topic: topic, partition: partition), offset...offset, fetchBytes: 65_536, timeout: timeout)
    }

    /// The messages of a partition at these offsets, as one batch; nil if the log has none there.
    ///
    /// - Parameter timeout: time limit of the wait for each message.
    /// - Throws: as ``message(topic:partition:offset:timeout:)``.
    package func messages(
        of partition: TopicPartition, at offsets: ClosedRange<Int64>, timeout: Duration = .seconds(30)
    ) async throws(KafkaError) -> KafkaBatch? {
        try await read(partition, offsets, fetchBytes: 1 << 20, timeout: timeout)
    }

    /// Number of offsets that are read at once.
    private static let chunk: Int64 = 20_000
    /// Timestamps until the year 10000, in milliseconds: a greater number is most probably one of microseconds.
    private static let usableTimes: Range<Int64> = 0..<253_402_300_800_000

    /// Reads messages of a partition from a time on, until `body` returns false.
    ///
    /// - Parameters:
    ///   - time: least timestamp of the first message, in milliseconds; nil reads all.
    ///   - body: called with a batch and the index of the message in it.
    package func read(
        _ partition: TopicPartition, _ offsets: Range<Int64>, from time: Int64? = nil,
        _ body: (KafkaBatch, Int) -> Bool
    ) async throws(KafkaError) {
        var next = offsets.lowerBound
        if let time { next = try await firstOffset(of: partition, in: offsets, from: time) }
        while next < offsets.upperBound {
            let last = min(next + Self.chunk - 1, offsets.upperBound - 1)
            if let batch = try await messages(of: partition, at: next...last) {
                for index in batch.records.indices where !body(batch, index) { return }
            }
            next = last + 1
        }
    }

    /// The first offset whose message came at a time or later.
    private func firstOffset(
        of partition: TopicPartition, in offsets: Range<Int64>, from time: Int64
    ) async throws(KafkaError) -> Int64 {
        var (low, high) = (offsets.lowerBound, offsets.upperBound)
        while low < high {
            let middle = low + (high - low) / 2
            // Offsets without a message are markers of transactions, or compacted: the next message decides, also for
            // one without a usable timestamp.
            let next = try await firstTime(of: partition, in: middle..<offsets.upperBound)
            if let next, next < time { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The first usable timestamp of the messages at these offsets.
    private func firstTime(
        of partition: TopicPartition, in offsets: Range<Int64>
    ) async throws(KafkaError) -> Int64? {
        var (next, width) = (offsets.lowerBound, Int64(8))
        while next < offsets.upperBound {
            let last = min(next + width - 1, offsets.upperBound - 1)
            let times = try await messages(of: partition, at: next...last)?.records.map(\.timestampMilliseconds) ?? []
            if let time = times.first(where: Self.usableTimes.contains) { return time }
            (next, width) = (last + 1, min(width * 8, Self.chunk))
        }
        return nil
    }

    /// The message of each partition at an offset, as a batch of one, over one connection and all at the same time: an
    /// error for a partition that cannot be read there, and nil for one whose log has no message there.
    ///
    /// - Parameter timeout: time limit of the wait for the next answer.
    package func messages(
        at offsets: [TopicPartition: Int64], timeout: Duration = .seconds(3)
    ) async throws(KafkaError) -> [TopicPartition: Result<KafkaBatch?, KafkaError>] {
        try await perform { reader in .success(reader.read(offsets, timeout: timeout)) }
    }

    /// Number of offsets that ``firstReadable(of:from:timeout:tried:)`` tries at a time.
    private static let triedAtOnce: Int64 = 32

    /// The first offset from this one on at which a partition can be read, its end included.
    ///
    /// - Parameters:
    ///   - timeout: time limit of the wait at each offset.
    ///   - tried: called with the next offset to try.
    /// - Throws: if the brokers do not answer.
    package func firstReadable(
        of partition: TopicPartition, from offset: Int64, timeout: Duration = .seconds(3),
        tried: (Int64) -> Void = { _ in }
    ) async throws(KafkaError) -> Int64 {
        var offset = offset
        while true {
            // A batch does not tell where it ends, so that each offset is tried: no readable message may be skipped.
            // Several at once, since a batch that librdkafka drops without an error takes the whole time limit.
            let results = await withTaskGroup { group in
                for place in offset..<offset + Self.triedAtOnce {
                    group.addTask { (place, await error(of: partition, at: place, timeout)) }
                }
                return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
            }
            for place in offset..<offset + Self.triedAtOnce {
                guard let error = results[place] else { return place }
                guard error.isUnreadableBatch else { throw error }
            }
            offset += Self.triedAtOnce
            tried(offset)
        }
    }

    private func error(of partition: TopicPartition, at offset: Int64, _ timeout: Duration) async -> KafkaError? {
        do throws(KafkaError) {
            _ = try await read(partition, offset...offset, fetchBytes: 65_536, timeout: timeout)
            return nil
        } catch {
            return error
        }
    }

    private func read(
        _ partition: TopicPartition, _ offsets: ClosedRange<Int64>, fetchBytes: Int, timeout: Duration
    ) async throws(KafkaError) -> KafkaBatch? {
        try await perform(fetchBytes: fetchBytes, queuedMessages: min(offsets.count, 1_000)) { reader in
            reader.read(partition, at: offsets, timeout: timeout)
        }
    }

    private func perform<Value: Sendable>(
        fetchBytes: Int = 65_536, queuedMessages: Int = 1,
        _ body: @escaping @Sendable (borrowing MessageReader) -> Result<Value, KafkaError>
    ) async throws(KafkaError) -> Value {
        try await PollThread.perform("kafka-reader") { answer in
            do throws(KafkaError) {
                let reader = try MessageReader(
                    configuration, fetchBytes: fetchBytes, queuedMessages: queuedMessages, logger: logger)
                // Answers before the client is closed, which takes a moment.
                answer(body(reader))
            } catch {
                answer(.failure(error))
            }
        }
    }
}
