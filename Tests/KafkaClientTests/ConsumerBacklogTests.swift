import KafkaClient
import TestSupport
import Testing

@Suite(.tags(.integration), .timeLimit(.patience))
struct ConsumerBacklogTests {
    @Test("A batch reports the number of messages behind its first one; zero at the end of the log")
    func backlog() async throws {
        try await withKafka { kafka in
            let topic = try await kafka.topic("backlog")
            let producer = try kafka.producer()
            let results = await producer.send((0..<1000).map { KafkaMessage(topic, "\($0)", partition: 0) })
            #expect(results.allSatisfy { (try? $0.get()) != nil })
            let consumer = try await kafka.consumer(topic) { $0.maximumBatchMessages = 100 }
            var (seen, backlogs) = (0, [Int64]())
            for try await event in consumer.events {
                guard case .batch(let batch) = event else { continue }
                seen += batch.count
                backlogs.append(batch.backlog)
                // The log end is read every 20 ms at most, so the count reaches zero only after some further messages.
                if seen >= 1000, batch.backlog == 0 { break }
                if seen >= 1000 { _ = await producer.send([KafkaMessage(topic, "one more", partition: 0)]) }
            }
            #expect(backlogs.contains { $0 > 0 && $0 < 1000 })
            #expect(backlogs.last == 0)
            await producer.shutdown()
            await consumer.shutdown()
        }
    }
}
