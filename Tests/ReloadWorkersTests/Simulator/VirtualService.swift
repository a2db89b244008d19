// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest
@testable import ReloadWorkers
@testable import WidgetSimulator

/// Ingest, workers and the planning of stacks on a database with virtual time.
struct VirtualService {
    private let worker: TestWorker
    private let time: VirtualTime
    private let directory: KindDirectory
    private let planning: StackPlanning
    private let record = DecisionRecord()
    private let sent = SentMessages()
    private var applier: BatchApplier
    private var offset: Int64 = 0
    /// Stacks with a schedule, by its id.
    private var keys: [TimelineID: StackPlan.Key] = [:]
    /// Plans in the order of their publication, an empty one for a stack that is gone.
    private(set) var plans: [StackPlan] = []

    var decisions: [SimulatedDecision] { record.decisions }

    init(
        _ first: TestWorker, _ time: VirtualTime,
        fetcher: (@escaping @Sendable () -> Timestamp) -> any ProviderFetching, _ directory: KindDirectory
    ) {
        (self.time, self.directory) = (time, directory)
        let record = record
        worker = first.another(
            fetcher: fetcher { record.now }, pool: time.pool, clock: WorkerClock(StandingClock()),
            decisions: DecisionRecorder { record.record($0) }
        ) { $0.directoryAge = .seconds(86_400) }
        planning = StackPlanning(context: worker.context, directory: worker.directory)
        applier = BatchApplier(pool: time.pool, audienceLimit: 1_000)
        applier.recordsDecisions = true
        let sent = sent
        first.publisher.respond { messages in
            sent.append(messages.filter { ["freshet.widgets", "freshet.suggestions"].contains($0.topic) })
            return nil
        }
    }

    mutating func run(_ events: [TimedEvent], until end: Timestamp) async throws {
        for event in events {
            try await work(before: event.time)
            try await advance(to: event.time)
            try await apply(event.event, EventHandling())
            if case .person(.stack(let stack)) = event.event.change, let user = event.event.user {
                let key = StackPlan.Key(app: event.event.app, user: user, device: stack.device, stack: stack.name)
                keys[key.id] = key
                _ = try await time.pool.query(.wantSchedule(key))
            }
            try await workNow()
        }
        try await work(before: end)
    }

    private mutating func work(before end: Timestamp) async throws {
        while let next = try await time.nextWork(before: end) {
            try await advance(to: max(next, time.now))
            try await workNow()
        }
    }

    private func advance(to now: Timestamp) async throws {
        guard now != record.now else { return }
        record.advance(to: now)
        try await time.advance(to: now)
    }

    /// Works on what is due now, with the events that it causes.
    private mutating func workNow() async throws {
        var isBusy = true
        while isBusy {
            try await worker.drain()
            _ = try await planning.gather()
            isBusy = try await !planning.pass().isEmpty
            for message in sent.take() {
                let headers = message.headers.map { ($0.name, String(decoding: $0.value ?? [], as: UTF8.self)) }
                if message.topic == "freshet.widgets" {
                    let event = try EventDecoder().decode(message.value ?? [], headers: headers).event
                    try await apply(event, EventHandling(isOrderedByArrival: true))
                    isBusy = true
                } else {
                    try note(message)
                }
            }
        }
    }

    /// Notes a published schedule.
    private mutating func note(_ message: KafkaMessage) throws {
        let id = try #require(TimelineID(String(decoding: message.key ?? [], as: UTF8.self)))
        let key = try #require(keys[id])
        guard let value = message.value else {
            plans.append(StackPlan(key: key, schedule: StackSchedule(), plannedAt: record.now))
            return
        }
        plans.append(try #require(StackPlan(stored: try JSONValue.parse(value), key: key)))
    }

    private mutating func apply(_ event: FreshetEvent, _ handling: EventHandling) async throws {
        var fold = BatchFold(directory: directory)
        offset += 1
        fold.add(
            BatchEvent(
                record: 0, position: EventPosition(topic: 2, partition: 0, offset: offset), time: record.now,
                event: event, handling: handling))
        let outcome = try await applier.apply(fold, advancing: []) { _ in
            DeadLetter(
                topic: "test", partition: 0, offset: 0, app: nil, code: "", error: "", key: nil, headers: [],
                payload: nil)
        }
        #expect(outcome.rejected.isEmpty)
        record.record(outcome.marks.compactMap { TimelineDecidedEvent(marked: $0, directory: directory) })
        if outcome.sweeps > 0 { try await worker.sweep() }
    }
}

/// Messages that wait to be taken.
private final class SentMessages: Sendable {
    private let messages = Mutex<[KafkaMessage]>([])

    func append(_ new: [KafkaMessage]) { messages.withLock { $0 += new } }

    func take() -> [KafkaMessage] {
        messages.withLock { messages in
            defer { messages = [] }
            return messages
        }
    }
}

/// A change of the widget on top of a stack, as a person sees it.
struct ShownWidgets: Hashable {
    var time: Timestamp
    var stack: TimelineID
    /// Empty without a widget.
    var widget: String
    var reason: String

    /// The changes that plans have caused, by stack and time.
    ///
    /// A plan holds until the next one. One that says the same as the one before causes no change.
    static func all(of plans: [StackPlan], until end: Timestamp) -> [ShownWidgets] {
        Dictionary(grouping: plans, by: \.key.id).sorted { $0.key < $1.key }.flatMap { stack, plans in
            var shown: [ShownWidgets] = []
            func show(_ rotation: StackSchedule.Rotation?, _ plan: StackPlan, at time: Timestamp) {
                let widget =
                    switch rotation?.item {
                    case .widget(let id): id
                    case .suggestion(let content): plan.widget(of: content)
                    case nil: ""
                    }
                // Of several plans at one time the last one counts.
                while let last = shown.last, last.time >= time { shown.removeLast() }
                guard shown.last?.widget != widget else { return }
                let reason = rotation?.reason.json["type"]?.stringValue ?? ""
                shown.append(ShownWidgets(time: time, stack: stack, widget: widget, reason: reason))
            }
            for (number, plan) in plans.enumerated() {
                let next = number + 1 < plans.count ? plans[number + 1].plannedAt : end
                show(plan.schedule.top(at: plan.plannedAt), plan, at: plan.plannedAt)
                for rotation in plan.schedule.rotations where plan.plannedAt < rotation.from && rotation.from < next {
                    show(rotation, plan, at: rotation.from)
                }
            }
            return shown
        }
    }
}

/// Records decisions with their virtual times.
final class DecisionRecord: Sendable {
    private let state = Mutex((now: Timestamp.distantPast, decisions: [SimulatedDecision]()))

    var now: Timestamp { state.withLock { $0.now } }
    var decisions: [SimulatedDecision] { state.withLock { $0.decisions } }

    func advance(to now: Timestamp) { state.withLock { $0.now = now } }

    func record(_ decisions: [TimelineDecidedEvent]) {
        state.withLock { state in
            for decision in decisions {
                guard let timeline = decision.timeline else { continue }
                state.decisions.append(
                    SimulatedDecision(
                        time: state.now, timeline: timeline, decision: decision.decision, rule: decision.rule,
                        reason: decision.reason ?? .policy))
            }
        }
    }
}
