import FreshetClient
import KafkaClient
import Logging
import Synchronization
import WidgetEvents

/// Publishes events at a steady rate. An event is repeated until it is acknowledged: the content has changed, and a
/// missing event would leave it stale.
final class Workload: Sendable {
    private struct State {
        var maker: EventMaker
        var unsent: [ChaosEvent] = []
        var underWay = 0
        var made = 0
        var acknowledged = 0
        var refusals = 0
        var isPaused = false
        var goesOn = true
    }

    /// Maximum number of events that are neither acknowledged nor given up.
    private static let mostUnderWay = 1_500
    private static let interval = Duration.milliseconds(50)

    private let world: ChaosWorld
    private let topics: ChaosTopics
    private let rate: Int
    private let producer: KafkaProducer
    private let register: @Sendable ([ChaosEvent]) -> Void
    private let state: Mutex<State>

    /// - Parameter register: Receives every event before it is published.
    init(
        world: ChaosWorld, kafka: ChaosKafka, seed: UInt64, rate: Int, logger: Logger,
        register: @escaping @Sendable ([ChaosEvent]) -> Void
    ) throws {
        self.world = world
        self.topics = kafka.topics
        self.rate = rate
        self.register = register
        producer = try KafkaProducer(
            configuration: kafka.configuration, deliveryTimeout: .seconds(5), logger: logger)
        state = Mutex(State(maker: EventMaker(world: world, topics: kafka.topics, seed: seed)))
    }

    var counts: (made: Int, acknowledged: Int, refusals: Int) {
        state.withLock { ($0.made, $0.acknowledged, $0.refusals) }
    }

    /// Whether everything is published and acknowledged.
    var isDone: Bool { state.withLock { !$0.goesOn && $0.unsent.isEmpty && $0.underWay == 0 } }

    /// Pauses while consumers are too far behind: an embedded broker would drop messages that they have not read.
    func set(paused: Bool) { state.withLock { $0.isPaused = paused } }

    /// Stops generating events.
    func stop() { state.withLock { $0.goesOn = false } }

    /// Publishes the registrations of devices and the placements of stable widgets; returns when all are acknowledged.
    func place() async throws {
        let events = state.withLock { $0.maker.registrations() + $0.maker.placements() }
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
            return (0..<count).map { _ in state.maker.next() }
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
        let results = await producer.send(events.map(message))
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
            let encoded = EventEncoder.encode(
                outgoing.event, id: outgoing.id, source: "/chaos", time: outgoing.time, key: outgoing.key)
            let topic =
                switch outgoing.event.type.topic {
                case .pushes: topics.pushes
                case .appChanges: topics.appChanges
                case .widgets: topics.widgets
                case .donations: topics.donations
                }
            return KafkaMessage(
                topic: topic, key: encoded.key, value: encoded.value,
                headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
        }
    }
}
