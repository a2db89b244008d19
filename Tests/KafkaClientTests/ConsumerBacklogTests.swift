// SPDX-License-Identifier: Apache-2.0

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
            // The log's end is read every 20 ms at most: more is sent until a batch was behind it, and until one no
            // longer is.
            var (sent, seen, wasBehind) = (1000, 0, false)
            for try await event in consumer.events {
                guard case .batch(let batch) = event else { continue }
                seen += batch.count
                #expect(batch.backlog >= 0 && batch.backlog < sent)
                if batch.backlog > 0 { wasBehind = true }
                guard seen == sent else { continue }
                if wasBehind, batch.backlog == 0 { break }
                let more = (0..<(wasBehind ? 1 : 1000)).map { KafkaMessage(topic, "more \($0)", partition: 0) }
                sent += more.count
                _ = await producer.send(more)
            }
            await producer.shutdown()
            await consumer.shutdown()
        }
    }
}
