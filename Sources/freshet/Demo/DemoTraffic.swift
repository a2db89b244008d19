// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import FreshetService
import JSON
import KafkaClient
import Randomness
import SampleProvider
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

/// Publishes the demo's events, as the services of the apps would.
final class DemoTraffic: Sendable {
    struct Counts: Sendable {
        var registered = 0
        var placed = 0
        var arranged = 0
        var targeted = 0
        var appChanges = 0
        var perKind = 0
        var global = 0
        var views = 0
        /// Events that Kafka did not acknowledge.
        var failures = 0

        /// Number of events, and how many there are of each sort.
        var words: String {
            "\(events) (\(registered) devices, \(placed) placed, \(arranged) of a stack, \(targeted) targeted pushes, "
                + "\(appChanges) app changes, \(views) views, \(perKind) per-kind and \(global) global reloads)"
        }

        var events: Int { registered + placed + arranged + targeted + appChanges + perKind + global + views }
    }

    private static let registeredPeople = 500

    private let world: DemoWorld
    private let publisher: EventPublisher
    private let latency: DemoLatency
    private let state = Mutex(Counts())

    init(world: DemoWorld, publisher: EventPublisher, latency: DemoLatency) {
        self.world = world
        self.publisher = publisher
        self.latency = latency
    }

    var counts: Counts { state.withLock { $0 } }

    /// Registers the devices of some people in the first widget's app.
    func registerDevices() async throws {
        let people = min(Self.registeredPeople, world.users)
        await publish(
            (0..<people).map { person in
                let address = APNsAddress(
                    token: DemoDevices.token(of: person), environment: .production,
                    topic: world.deviceApp + APNsAddress.topicSuffix)
                return FreshetEvent(
                    app: world.deviceApp, user: world.user(person),
                    .device(.registered(device: "d\(person)", .apns(address))))
            })
        count { $0.registered += people }
    }

    /// Places all widgets; held back while ingest is far behind, since the embedded cluster keeps only 5 MiB a
    /// partition.
    func placeAll(applied: @Sendable () -> Int) async throws {
        var next = 0
        while next < world.widgets {
            let end = min(next + 500, world.widgets)
            await publish((next..<end).map { FreshetEvent(world.placement($0)) })
            count { $0.placed += end - next }
            next = end
            try await holdBack(applied: applied)
        }
    }

    /// Arranges a stack of the first person's widgets of an app, which the workers plan while the demo runs, and donates
    /// a view of the first one's content.
    func arrangeStack() async -> StackPlan.Key {
        let first = world.placement(0)
        let key = StackPlan.Key(app: first.app, user: first.user, device: first.device, stack: "home")
        let widgets = world.widgets(of: 0).map(world.placement).filter { $0.app == first.app }.prefix(3).map(\.widget)
        // Suggestions would place further widgets, which the demo's count of events does not know.
        let arrangement = StackArrangement(device: first.device, name: key.stack, widgets: widgets, suggestions: false)
        let viewed = DonatedInteraction(
            kind: first.kind, configuration: first.configuration, timeZone: "Europe/London")
        await publish([
            FreshetEvent(app: key.app, user: key.user, .person(.stack(arrangement))),
            FreshetEvent(app: key.app, user: key.user, .interaction(viewed)),
        ])
        count { $0.arranged += 2 }
        return key
    }

    /// Publishes at the given rate for the given time: mostly single reloads, now and then a kind or a whole app.
    func stream(rate: Int, for length: Duration, seed: UInt64, applied: @Sendable () -> Int) async throws {
        var random = SeededGenerator(seed: seed)
        let start = ContinuousClock.now
        var sent = 0
        var nextKind = Duration.seconds(2)
        var nextGlobal = Duration.seconds(7)
        while true {
            let elapsed = start.duration(to: .now)
            guard elapsed < length else { return }
            if elapsed >= nextKind {
                try await reloadKind(&random)
                nextKind += .seconds(4)
            }
            if elapsed >= nextGlobal {
                try await reloadEverything()
                nextGlobal += .seconds(12)
            }
            let due = Int(elapsed / .milliseconds(1)) * rate / 1000 - sent
            if due > 0 {
                var events: [FreshetEvent] = []
                for _ in 0..<due { events.append(single(&random)) }
                await publish(events)
                sent += due
            }
            try await holdBack(applied: applied)
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    private func holdBack(applied: @Sendable () -> Int) async throws {
        while counts.events - applied() > 10_000 {
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    // MARK: Events

    private func single(_ random: inout SeededGenerator) -> FreshetEvent {
        // The first person's widgets are the reader's, whose own pushes have the whole budget.
        let index = Int.random(in: min(1, world.users - 1)..<world.users, using: &random)
        let user = world.user(index)
        guard world.manifest == nil else { return single(of: index, &random) }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<60:
            count { $0.targeted += 1 }
            return FreshetEvent(
                ReloadRequest(
                    app: SampleWorld.bank, audience: .user(user), kinds: .kinds(["RecentPurchases"]), reason: .push))
        case 60..<70:
            count { $0.targeted += 1 }
            return FreshetEvent(
                ReloadRequest(
                    app: SampleWorld.bank, audience: .user(user), kinds: .kinds(["RecentPurchases"]),
                    matching: SampleWorld.configuration([("card", "acme")]), reason: .push))
        case 70..<80:
            count { $0.targeted += 1 }
            return FreshetEvent(
                ReloadRequest(app: SampleWorld.rangers, audience: .device("d\(index)"), kinds: .all, reason: .push))
        case 80..<92:
            count { $0.appChanges += 1 }
            let reason: ReloadReason = Bool.random(using: &random) ? .foreground : .background
            return FreshetEvent(
                ReloadRequest(app: SampleWorld.bank, audience: .user(user), kinds: .all, reason: reason))
        default:
            count { $0.views += 1 }
            return FreshetEvent(
                app: SampleWorld.bank, .view(widget: world.placement(index * world.widgetsPerUser).widget))
        }
    }

    /// An event for a widget of a manifest's kinds.
    private func single(of person: Int, _ random: inout SeededGenerator) -> FreshetEvent {
        let own = world.widgets(of: person)
        let place = world.placement(Int.random(in: own, using: &random))
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<70:
            count { $0.targeted += 1 }
            return FreshetEvent(
                ReloadRequest(app: place.app, audience: .user(place.user), kinds: .kinds([place.kind]), reason: .push))
        case 70..<85:
            count { $0.appChanges += 1 }
            return FreshetEvent(
                ReloadRequest(app: place.app, audience: .user(place.user), kinds: .all, reason: .foreground))
        default:
            count { $0.views += 1 }
            return FreshetEvent(app: place.app, .view(widget: place.widget))
        }
    }

    private func reloadKind(_ random: inout SeededGenerator) async throws {
        let sample =
            Bool.random(using: &random) ? (SampleWorld.bank, "DueDate") : (SampleWorld.weather, "Weather")
        let own = world.placement(Int.random(in: world.widgets(of: 0), using: &random))
        let (app, kind) = world.manifest == nil ? sample : (own.app, own.kind)
        count { $0.perKind += 1 }
        await publish([FreshetEvent(ReloadRequest(app: app, audience: .everyone, kinds: .kinds([kind]), reason: .push))]
        )
    }

    private func reloadEverything() async throws {
        count { $0.global += 1 }
        await publish([
            FreshetEvent(ReloadRequest(app: world.deviceApp, audience: .everyone, kinds: .all, reason: .push))
        ])
    }

    private func count(_ change: (inout Counts) -> Void) {
        state.withLock { change(&$0) }
    }

    // MARK: Publishing

    private func publish(_ events: [FreshetEvent]) async {
        let time = Timestamp.now()
        let instant = ContinuousClock.now
        let results = await publisher.publish(events.map { OutgoingEvent($0, time: time, key: key(of: $0)) })
        for (event, result) in zip(events, results) {
            guard case .success(let delivery) = result else {
                state.withLock { $0.failures += 1 }
                continue
            }
            if let position = EventPosition(delivery, of: event) { latency.noteSent(position, at: instant) }
        }
    }

    private func key(of event: FreshetEvent) -> String? {
        guard case .view(let widget) = event.change, let index = Int(widget.dropFirst()) else { return nil }
        return world.user(index / world.widgetsPerUser)
    }
}

/// Sampled latency from the publication of an event to the storage of a timeline. The event that a stored timeline
/// names as its cause is looked up among the published ones.
final class DemoLatency: Sendable {
    /// Percentiles in milliseconds; zero without samples.
    typealias Summary = (samples: Int, p50: Double, p99: Double)

    private static func summary(_ latencies: [Duration]) -> Summary {
        let sorted = latencies.sorted()
        func percentile(_ share: Double) -> Double {
            sorted.isEmpty ? 0 : sorted[Int(Double(sorted.count - 1) * share)] / .milliseconds(1)
        }
        return (sorted.count, percentile(0.5), percentile(0.99))
    }

    private struct State {
        var sent: [EventPosition: ContinuousClock.Instant] = [:]
        /// The event that each timeline was last stored for: a timeline that is stored again for another reason (a
        /// reload of everyone, its policy) still names it.
        var served: [TimelineID: EventPosition] = [:]
        var all: [Duration] = []
        var recent: [Duration] = []
    }

    /// Most events that are remembered.
    private static let maximumRemembered = 200_000

    private let state = Mutex(State())

    func noteSent(_ position: EventPosition, at time: ContinuousClock.Instant) {
        state.withLock { state in
            if state.sent.count >= Self.maximumRemembered { state.sent.removeAll(keepingCapacity: true) }
            state.sent[position] = time
        }
    }

    func noteStored(_ timeline: TimelineID, _ cause: EventPosition?) {
        guard let cause else { return }
        let now = ContinuousClock.now
        state.withLock { state in
            guard state.served.updateValue(cause, forKey: timeline) != cause else { return }
            // Kept: one event may cause many timelines.
            guard let sent = state.sent[cause] else { return }
            state.all.append(sent.duration(to: now))
            state.recent.append(sent.duration(to: now))
        }
    }

    func overall() -> Summary { Self.summary(state.withLock { $0.all }) }

    /// Latencies since the last call.
    func takeRecent() -> Summary {
        Self.summary(
            state.withLock { state in
                defer { state.recent = [] }
                return state.recent
            })
    }
}
