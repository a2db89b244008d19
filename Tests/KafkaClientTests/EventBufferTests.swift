// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import KafkaClient

/// Order, bound and end of the events, without threads: waiters are numbers.
struct EventBufferTests {
    private typealias State = KafkaConsumerEvents.State<Int>

    private var empty: State { State(builder: BatchBuilder(maximumMessages: 10, maximumBytes: 1_000)) }

    private let place = TopicPartition(topic: "t", partition: 0)

    private func batch(_ partition: Int32, _ offsets: Range<Int64>) -> KafkaConsumerEvent {
        .batch(
            KafkaBatch(offsets.map { ($0, KafkaMessage(topic: "t", partition: partition, value: Array("\($0)".utf8))) })
        )
    }

    /// Description of a waiter's outcome.
    private func told(_ resumption: State.Resumption?) -> String {
        guard let (waiter, outcome) = resumption else { return "none" }
        switch outcome {
        case .success(nil): return "\(waiter): end"
        case .success(.batch(let batch)?):
            return "\(waiter): batch \(batch.messages.map { "\($0.place.partition)/\($0.offset)" })"
        case .success(.interrupted?): return "\(waiter): interrupted"
        case .success(.offsetOutOfRange(_, let offset)?): return "\(waiter): out of range \(offset)"
        case .success(.otherLog(_, let offset)?): return "\(waiter): other log at \(offset)"
        case .success(.unreadable(let place, let offset, _)?):
            return "\(waiter): unreadable \(place.partition)/\(offset)"
        case .success(.advanced(let ends)?):
            return "\(waiter): advanced \(ends.sorted { $0.key < $1.key }.map { "\($0.key.partition)/\($0.value)" })"
        case .success(.error(let error)?): return "\(waiter): error \(error.message)"
        case .failure(let error): return "\(waiter): threw \(error.message)"
        }
    }

    private func error(_ message: String) -> KafkaError {
        KafkaError(code: .timedOut, message: message, isRetriable: true, context: .init(operation: "test"))
    }

    @Test("Events are delivered in the order of their arrival")
    func order() {
        var state = empty
        _ = state.push(batch(0, 0..<2))
        _ = state.push(.interrupted)
        _ = state.push(.interrupted)
        _ = state.push(batch(1, 0..<1))
        #expect(state.batches == 2)
        #expect(told(state.take(1)) == #"1: batch ["0/0", "0/1"]"#)
        #expect(told(state.take(2)) == "2: interrupted")
        #expect(told(state.take(3)) == #"3: batch ["1/0"]"#)
        #expect(state.batches == 0)
        #expect(told(state.take(4)) == "none")
        #expect(told(state.push(batch(0, 2..<3))) == #"4: batch ["0/2"]"#)
        #expect(state.batches == 0)
    }

    @Test("Events before the end are delivered, then the sequence stays at its end")
    func end() {
        var state = empty
        _ = state.push(batch(0, 0..<1))
        #expect(told(state.finish(error("gone"))) == "none")
        #expect(told(state.push(batch(0, 1..<2))) == "none")
        #expect(told(state.take(1)) == #"1: batch ["0/0"]"#)
        #expect(told(state.take(2)) == "2: threw gone")
        #expect(told(state.take(3)) == "3: end")
        #expect(told(state.finish(error("again"))) == "none")
        #expect(told(state.take(4)) == "4: end")
    }

    @Test("The end resumes a waiter at once")
    func endWhileWaiting() {
        var state = empty
        _ = state.take(1)
        #expect(told(state.finish(nil)) == "1: end")
        #expect(told(state.take(2)) == "2: end")
        var failing = empty
        _ = failing.take(1)
        #expect(told(failing.finish(error("gone"))) == "1: threw gone")
        #expect(told(failing.take(2)) == "2: end")
    }

    @Test("A second waiter is rejected; the first one stays")
    func oneReceiver() {
        var state = empty
        _ = state.take(1)
        #expect(told(state.take(2)) == "2: threw the events have one receiver, and it is waiting already")
        #expect(told(state.push(batch(0, 0..<1))) == #"1: batch ["0/0"]"#)
    }

    @Test("A cancelled waiter ends; the events stay for the next one")
    func cancelled() {
        var state = empty
        _ = state.take(1)
        #expect(told(state.cancelWaiter()) == "1: end")
        #expect(told(state.cancelWaiter()) == "none")
        _ = state.push(batch(0, 0..<1))
        #expect(told(state.take(2)) == #"2: batch ["0/0"]"#)
    }

    @Test("A flood of errors does not fill the memory")
    func boundedErrors() {
        var state = empty
        for number in 0..<100 { _ = state.push(.error(error("\(number)"))) }
        #expect(state.events.count == State.maximumErrors)
        #expect(told(state.take(1)) == "1: error 0")
        _ = state.push(.error(error("later")))
        #expect(state.events.count == State.maximumErrors)
    }

    @Test("An assignment removes only the partition's records from waiting events")
    func removal() {
        var state = empty
        _ = state.push(batch(0, 0..<2))
        _ = state.push(.offsetOutOfRange(place, offset: 9))
        _ = state.push(
            .batch(
                KafkaBatch([
                    (2, KafkaMessage(topic: "t", partition: 0, value: [1])),
                    (5, KafkaMessage(topic: "t", partition: 1, value: [2])),
                    (2, KafkaMessage(topic: "u", partition: 0, value: [3])),
                ])))
        _ = state.push(.interrupted)
        state.remove([place])
        #expect(state.batches == 1)
        #expect(told(state.take(1)) == #"1: batch ["1/5", "0/2"]"#)
        #expect(told(state.take(2)) == "2: interrupted")
        #expect(told(state.take(3)) == "none")
    }

    @Test("Cancelling the task ends the iteration")
    func cancelledTask() async throws {
        let events = KafkaConsumerEvents(builder: BatchBuilder(maximumMessages: 10, maximumBytes: 1_000)) {}
        let task = Task {
            var count = 0
            for try await _ in events { count += 1 }
            return count
        }
        events.push(batch(0, 0..<1))
        task.cancel()
        _ = try await task.value
    }

    @Test("A receiver takes the gathered messages behind the events, and none after the end")
    func gathered() {
        var state = empty
        func add(_ offset: Int64) {
            state.builder.append(
                topicIndex: 0, partition: 0, offset: offset, timestampMilliseconds: -1, key: nil, value: [], headers: []
            )
        }
        state.builder.topics = ["t"]
        add(0)
        _ = state.push(.interrupted)
        #expect(told(state.take(1)) == "1: interrupted")
        #expect(told(state.take(2)) == #"2: batch ["0/0"]"#)
        #expect(told(state.take(3)) == "none")
        add(1)
        #expect(told(state.flush()) == #"3: batch ["0/1"]"#)
        add(2)
        state.remove([place])
        #expect(told(state.flush()) == "none")
        add(3)
        _ = state.discard()
        #expect(told(state.take(4)) == "4: end")
    }
}
