import KafkaClient
import TestSupport
import Testing

/// Results of a batch's reader on the poll thread.
@Suite(.tags(.integration), .timeLimit(.patience))
struct MessageReaderTests {
    /// Records the offset and the value of every message.
    private final class Recorder: KafkaMessageReader {
        struct Note: Equatable, Sendable {
            var place: TopicPartition
            var offset: Int64
            var value: String
        }

        private var notes: [Note] = []

        func read(_ record: KafkaBatch.Record, in bytes: [UInt8], topics: [String]) {
            let value = record.valueRange.map { String(decoding: bytes[$0], as: UTF8.self) }
            let place = TopicPartition(topic: topics[Int(record.topicIndex)], partition: record.partition)
            notes.append(Note(place: place, offset: record.offset, value: value ?? "-"))
        }

        func take() -> (any Sendable)? {
            defer { notes = [] }
            return notes
        }
    }

    private func expect(_ batch: KafkaBatch, isAnnotated: Bool = true) {
        guard let notes = batch.annotation as? [Recorder.Note] else {
            #expect(!isAnnotated)
            return
        }
        let expected = (0..<batch.count).map { index in
            Recorder.Note(
                place: batch.topicPartition(index), offset: batch.records[index].offset,
                value: batch.value(index).map { String(decoding: batch.bytes[$0], as: UTF8.self) } ?? "-")
        }
        #expect(notes == expected)
    }

    @Test("A reader's notes match the batch's messages in order, also after a seek has removed some")
    func seeks() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("reader", partitions: 2)
            let producer = try kafka.producer()
            let results = await producer.send(
                (0..<4000).map { KafkaMessage(topic, "\($0)", partition: Int32($0 % 2)) })
            #expect(results.allSatisfy { (try? $0.get()) != nil })
            await producer.shutdown()
            let consumer = try await kafka.consumer(topic) {
                $0.maximumBatchMessages = 150
                $0.bufferedBatches = 1
                $0.makeReader = { Recorder() }
            }
            var offsets: [Int32: [Int64]] = [:]
            var batches = 0
            var annotated = 0
            for try await event in consumer.events {
                switch event {
                case .batch(let batch):
                    batches += 1
                    if batch.annotation != nil { annotated += 1 }
                    // A batch from which records were removed in the buffer has no annotation.
                    expect(batch, isAnnotated: false)
                    for record in batch.records { offsets[record.partition, default: []].append(record.offset) }
                    if batches == 3 || batches == 6 {
                        // Removes all waiting messages of one partition and keeps the other's.
                        let next = (offsets[0]?.last ?? -1) + 1
                        await consumer.assign([TopicPartition(topic: topic, partition: 0): .at(next)])
                    }
                case .offsetOutOfRange, .otherLog: Issue.record("\(event)")
                case .error, .interrupted, .advanced, .unreadable: continue
                }
                if offsets.values.map(\.count).reduce(0, +) >= 4000 { break }
            }
            #expect(offsets == [0: (0..<2000).map { $0 }, 1: (0..<2000).map { $0 }])
            #expect(annotated > batches / 2)
            await consumer.shutdown()
        }
    }
}
