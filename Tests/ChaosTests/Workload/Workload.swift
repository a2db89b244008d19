// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import KafkaClient
import Logging
import Synchronization
import WidgetEvents
import WidgetModel

/// Publishes events at a steady rate. An event is repeated until it is acknowledged: the content has changed, and a
/// missing event would leave it stale.
final class Workload: Sendable {
    private struct State {
        var maker: EventMaker
        var wrongClockMaker: WrongClockMaker
        /// Error of the clocks of some producers.
        var clock: WrongClock?
        /// Number of faults that make producers transactional.
        var transactional = 0
        /// Time of the correct events after those of wrong clocks.
        var correctedAt: Timestamp?
        var unsent: [ChaosEvent] = []
        var underWay = 0
        var made = 0
        var acknowledged = 0
        var refusals = 0
        var isPaused = false
        var goesOn = true
        var random: SeededRandom

        /// Whether the next event is one of a producer with a wrong clock.
        mutating func misdates() -> Bool { random.chance(Workload.misdatedShare) }

        /// Whether the events that have just been published end a transaction.
        mutating func endsTransaction() -> Bool { random.chance(0.25) }
    }

    /// Maximum number of events that are neither acknowledged nor given up.
    private static let mostUnderWay = 1_500
    private static let interval = Duration.milliseconds(50)
    /// Share of the events that a producer with a wrong clock publishes.
    private static let misdatedShare = 0.15

    private let world: ChaosWorld
    private let topics: ChaosTopics
    private let rate: Int
    private let producer: KafkaProducer
    private let markers: TransactionMarkers?
    private let register: @Sendable ([ChaosEvent]) -> Void
    private let state: Mutex<State>

    /// - Parameters:
    ///   - markers: Ends the transactions; nil for none.
    ///   - register: Receives every event before it is published.
    init(
        world: ChaosWorld, kafka: ChaosKafka, seed: UInt64, rate: Int, logger: Logger,
        markers: TransactionMarkers?, register: @escaping @Sendable ([ChaosEvent]) -> Void
    ) throws {
        self.world = world
        self.topics = kafka.topics
        self.rate = rate
        self.register = register
        self.markers = markers
        producer = try KafkaProducer(
            configuration: kafka.configuration, deliveryTimeout: .seconds(5), logger: logger)
        state = Mutex(
            State(
                maker: EventMaker(world: world, topics: kafka.topics, seed: seed),
                wrongClockMaker: WrongClockMaker(world: world, seed: seed),
                random: SeededRandom(seed: seed, stream: "workload")))
    }

    var counts: (made: Int, acknowledged: Int, refusals: Int) {
        state.withLock { ($0.made, $0.acknowledged, $0.refusals) }
    }

    /// Whether everything is published and acknowledged.
    var isDone: Bool { state.withLock { !$0.goesOn && $0.unsent.isEmpty && $0.underWay == 0 } }

    /// Pauses while consumers are too far behind: an embedded broker would drop messages that they have not read.
    func set(paused: Bool) { state.withLock { $0.isPaused = paused } }

    /// Gives some producers a wrong clock, or corrects it (nil).
    func set(clock: WrongClock?) { state.withLock { $0.clock = clock } }

    /// Publishes in transactions from now on; calls nest.
    func beginTransactions() { state.withLock { $0.transactional += 1 } }

    /// Ends what ``beginTransactions()`` began. Every partition then ends with the marker of a transaction.
    func endTransactions() async {
        state.withLock { $0.transactional -= 1 }
        await markers?.endAll()
    }

    /// Ends every log with the marker of a transaction, if producers were transactional.
    func endLogs() async {
        if let markers, markers.isUsed { await markers.endAll() }
    }

    /// Time of the correct events after those of wrong clocks; nil without any.
    var correctedAt: Timestamp? { state.withLock { $0.correctedAt } }

    /// Publishes a push for everybody in the crowd, all at once.
    func reloadCrowd() async throws { try await publishAll(state.withLock { $0.maker.crowd() }) }

    /// Publishes the correct events of people who had a wrong clock.
    ///
    /// - Returns: Whether there are any.
    func correct() async throws -> Bool {
        let now = Timestamp.now()
        let events = state.withLock { state -> [ChaosEvent] in
            guard state.wrongClockMaker.isUsed else { return [] }
            state.correctedAt = now
            return state.wrongClockMaker.corrections(at: now)
        }
        guard !events.isEmpty else { return false }
        try await publishAll(events)
        return true
    }

    /// Stops generating events.
    func stop() { state.withLock { $0.goesOn = false } }

    /// Publishes the registrations of devices and the placements of stable widgets; returns when all are acknowledged.
    func place() async throws {
        let events = state.withLock { $0.maker.registrations() + $0.maker.placements() }
        try await publishAll(events)
    }

    private func publishAll(_ events: [ChaosEvent]) async throws {
        for start in stride(from: 0, to: events.count, by: 500) {
            let chunk = Array(events[start..<min(start + 500, events.count)])
            prepare(chunk)
            await publish(chunk)
        }
        while state.withLock({ !$0.unsent.isEmpty }) {
            await publish(takeUnsent())
            try await Task.sleep(for: Self.interval)
        }
    }

    /// Publishes until ``stop()``, then the remaining events; returns when all are acknowledged.
    func run() async throws {
        try await withThrowingDiscardingTaskGroup { group in
            var owed = 0.0
            var last = ContinuousClock.now
            while !isDone {
                try await Task.sleep(for: Self.interval)
                let now = ContinuousClock.now
                owed = min(owed + (now - last) / .seconds(1) * Double(rate), Double(rate))
                last = now
                let fresh = make(Int(owed))
                owed -= Double(Int(owed))
                let events = takeUnsent() + fresh
                guard !events.isEmpty else { continue }
                group.addTask { await self.publish(events) }
            }
        }
    }

    func close() async { await producer.shutdown() }

    private func make(_ count: Int) -> [ChaosEvent] {
        let events = state.withLock { state -> [ChaosEvent] in
            guard state.goesOn, !state.isPaused, state.underWay + state.unsent.count < Self.mostUnderWay else {
                return []
            }
            return (0..<count).map { _ in
                if let clock = state.clock, state.misdates() { return state.wrongClockMaker.next(clock) }
                return state.maker.next()
            }
        }
        prepare(events)
        return events
    }

    private func prepare(_ events: [ChaosEvent]) {
        register(events)
        for event in events { world.raise(event.sources) }
        state.withLock { state in
            state.made += events.count
            state.underWay += events.count
        }
    }

    private func takeUnsent() -> [ChaosEvent] {
        state.withLock { state in
            defer { state.unsent = [] }
            state.underWay += state.unsent.count
            return state.unsent
        }
    }

    private func publish(_ events: [ChaosEvent]) async {
        let messages = events.map(message)
        let results = await producer.send(messages)
        if let markers, state.withLock({ $0.transactional > 0 && $0.endsTransaction() }) {
            await markers.end(
                Set(
                    zip(messages, results).compactMap { message, result in
                        (try? result.get()).map { TopicPartition(topic: message.topic, partition: $0.partition) }
                    }))
        }
        state.withLock { state in
            state.underWay -= events.count
            for (event, result) in zip(events, results) {
                switch result {
                case .success: state.acknowledged += 1
                case .failure:
                    state.refusals += 1
                    state.unsent.append(event)
                }
            }
        }
    }

    private func message(_ event: ChaosEvent) -> KafkaMessage {
        switch event.message {
        case .malformed(let topic, let key):
            return KafkaMessage(
                topic: topic, key: Array(key.utf8), value: Array("{\"app\": \"com.chaos.alpha\", ".utf8),
                headers: [
                    KafkaHeader(name: "ce_specversion", value: "1.0"), KafkaHeader(name: "ce_id", value: event.id),
                    KafkaHeader(name: "ce_source", value: "/chaos"),
                    KafkaHeader(name: "ce_type", value: "freshet.push.received.v1"),
                ])
        case .event(let outgoing):
            let time = event.clock.map { $0.eventTime(outgoing.time) } ?? outgoing.time
            let encoded = outgoing.event.encode(
                id: outgoing.id, source: "/chaos", time: time, key: outgoing.key)
            let topic =
                switch outgoing.event.type.topic {
                case .pushes: topics.pushes
                case .appChanges: topics.appChanges
                case .widgets: topics.widgets
                case .donations: topics.donations
                }
            return KafkaMessage(
                topic: topic, key: encoded.key, value: encoded.value,
                headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) },
                timestampMilliseconds: event.clock?.recordMilliseconds(outgoing.time))
        }
    }
}
