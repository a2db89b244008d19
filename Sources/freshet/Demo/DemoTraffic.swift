import FreshetClient
import FreshetService
import KafkaClient
import SampleProvider
import Synchronization
import WidgetEvents
import WidgetModel
import WidgetStore

/// Publishes the demo's events, as the services of the apps would, and remembers what has to be rendered for it.
final class DemoTraffic: Sendable {
    /// A kind of an app, for everyone or for one user.
    struct Scope: Hashable, Sendable {
        var app: String
        /// `nil`: every kind.
        var kind: String?
        /// `nil`: everyone.
        var user: String?
    }

    struct Counts: Sendable {
        var placed = 0
        var targeted = 0
        var appChanges = 0
        var perKind = 0
        var global = 0
        var views = 0

        var events: Int { placed + targeted + appChanges + perKind + global + views }
    }

    private struct State {
        var counts = Counts()
        /// When each scope was last asked to reload; what shows it must have been rendered later than that.
        var requested: [Scope: Timestamp] = [:]
        var failures = 0
    }

    private let world: DemoWorld
    private let publisher: EventPublisher
    private let latency: DemoLatency
    private let now: @Sendable () -> Timestamp
    private let state = Mutex(State())

    init(
        world: DemoWorld, publisher: EventPublisher, latency: DemoLatency, now: @escaping @Sendable () -> Timestamp
    ) {
        self.world = world
        self.publisher = publisher
        self.latency = latency
        self.now = now
    }

    var counts: Counts { state.withLock { $0.counts } }
    /// Events that the broker did not acknowledge.
    var failures: Int { state.withLock { $0.failures } }
    var requested: [Scope: Timestamp] { state.withLock { $0.requested } }

    /// Places all widgets; held back while ingest is far behind, since the embedded cluster keeps only 5 MiB a partition.
    func placeAll(applied: @Sendable () -> Int) async throws {
        var next = 0
        while next < world.widgets {
            let end = min(next + 500, world.widgets)
            await publish((next..<end).map { .placed(world.placement($0)) })
            state.withLock { $0.counts.placed += end - next }
            next = end
            try await holdBack(applied: applied)
        }
    }

    /// Publishes at the given rate for the given time: mostly single reloads, now and then a kind or a whole app.
    func stream(
        rate: Int, for length: Duration, seed: UInt64, applied: @Sendable () -> Int
    ) async throws {
        var random = SampleRandom(seed: seed)
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

    /// One event of one person.
    private func single(_ random: inout SampleRandom) -> FreshetEvent {
        let index = Int.random(in: 0..<world.users, using: &random)
        let user = world.user(index)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<60:
            count { $0.targeted += 1 }
            return .push(
                ReloadRequest(
                    app: DemoWorld.bank, audience: .user(user), kinds: .kinds(["RecentPurchases"]), reason: .push))
        case 60..<70:
            count { $0.targeted += 1 }
            return .push(
                ReloadRequest(
                    app: DemoWorld.bank, audience: .user(user), kinds: .kinds(["RecentPurchases"]),
                    matching: DemoWorld.configuration([("card", "acme")]), reason: .push))
        case 70..<80:
            count { $0.targeted += 1 }
            return .push(
                ReloadRequest(app: DemoWorld.rangers, audience: .device("d\(index)"), kinds: .all, reason: .push))
        case 80..<92:
            count { $0.appChanges += 1 }
            let reason: ReloadReason = Bool.random(using: &random) ? .foreground : .background
            return .appChange(
                ReloadRequest(app: DemoWorld.bank, audience: .user(user), kinds: .all, reason: reason))
        default:
            count { $0.views += 1 }
            return .viewed(app: DemoWorld.bank, widget: "w\(index * DemoWorld.widgetsPerUser)")
        }
    }

    private func reloadKind(_ random: inout SampleRandom) async throws {
        let (app, kind) = Bool.random(using: &random) ? (DemoWorld.bank, "DueDate") : (DemoWorld.weather, "Weather")
        count { $0.perKind += 1 }
        await publish([
            .push(ReloadRequest(app: app, audience: .everyone, kinds: .kinds([kind]), reason: .push))
        ])
    }

    private func reloadEverything() async throws {
        count { $0.global += 1 }
        await publish([
            .push(ReloadRequest(app: DemoWorld.bank, audience: .everyone, kinds: .all, reason: .push))
        ])
    }

    private func count(_ change: (inout Counts) -> Void) {
        state.withLock { change(&$0.counts) }
    }

    // MARK: Publishing

    private func publish(_ events: [FreshetEvent]) async {
        let time = now()
        let instant = ContinuousClock.now
        let results = await publisher.publish(events.map { OutgoingEvent($0, time: time, key: key(of: $0)) })
        for (event, result) in zip(events, results) {
            guard case .success(let delivery) = result else {
                state.withLock { $0.failures += 1 }
                continue
            }
            if let position = EventPosition(delivery, of: event) { latency.sent(position, at: instant) }
            note(event, at: time)
        }
    }

    /// Remembers what an acknowledged request asks for. One that matches only some configurations is left out: it is a
    /// subset of what the others ask for.
    private func note(_ event: FreshetEvent, at time: Timestamp) {
        let request: ReloadRequest
        switch event {
        case .push(let push): request = push
        case .appChange(let change): request = change
        default: return
        }
        guard request.matching == nil else { return }
        let user: String?
        switch request.audience {
        case .everyone: user = nil
        case .user(let id): user = id
        case .device(let id): user = "u" + id.dropFirst()
        case .widget: return
        }
        let kinds: [String?]
        switch request.kinds {
        case .all: kinds = [nil]
        case .kinds(let names): kinds = names
        }
        state.withLock { state in
            for kind in kinds {
                let scope = Scope(app: request.app, kind: kind, user: user)
                state.requested[scope] = max(time, state.requested[scope] ?? time)
            }
        }
    }

    private func key(of event: FreshetEvent) -> String? {
        guard case .viewed(_, let widget) = event, let index = Int(widget.dropFirst()) else { return nil }
        return world.user(index / DemoWorld.widgetsPerUser)
    }
}
