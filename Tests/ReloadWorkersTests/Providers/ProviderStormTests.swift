// SPDX-License-Identifier: Apache-2.0

import Logging
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The claim scheduler and the provider protection in a discrete-event simulation: effects of a failing provider on the
/// others.
struct ProviderStormTests {
    /// Behaviour of a provider: duration and outcome of requests.
    private enum Health {
        case well
        /// No answer; the request times out.
        case hangs
        /// Immediate refusal.
        case refuses
        case slow
    }

    /// A worker process with 32 slots and ten providers. Provider 0 has half of the work.
    private struct World {
        static let timeout = Duration.seconds(10)
        static let latency = Duration.milliseconds(100)

        private struct Request {
            let provider: Int
            let ends: Duration
            let timelines: Int
            let ticket: RequestTicket
        }

        let protection = ProviderProtection(
            WorkerConfiguration().protectionRules,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        var scheduler = ClaimScheduler()
        var health: (_ provider: Int, _ time: Duration) -> Health
        var time = Duration.zero
        /// Answered timelines and requests, by provider.
        var answered = Array(repeating: 0, count: 10)
        var asked = Array(repeating: 0, count: 10)
        /// Slots held by provider 0, integrated over time.
        var heldSlotSeconds = 0.0
        private var inFlight: [Request] = []

        init(_ health: @escaping (_ provider: Int, _ time: Duration) -> Health) {
            self.health = health
        }

        private static func key(_ provider: Int) -> ProviderKey {
            ProviderKey(appID: Int32(provider), app: "a", url: "http://p\(provider)")
        }

        private let targets = Dictionary(
            uniqueKeysWithValues: (0..<10).map { provider in
                (
                    Int32(provider),
                    ClaimTarget(appID: Int32(provider), provider: key(provider), maxBatch: 10)
                )
            })

        private var held: [ProviderKey: HeldSlots] {
            inFlight.reduce(into: [:]) { $0[Self.key($1.provider), default: HeldSlots()].add(1, .push) }
        }

        mutating func run(until end: Duration) {
            while time < end {
                claim()
                // At least every tick, as the worker polls.
                let next = min(inFlight.map(\.ends).min() ?? .seconds(1_000_000), time + .milliseconds(100))
                heldSlotSeconds += Double(inFlight.count { $0.provider == 0 }) * ((next - time) / .seconds(1))
                time = next
                finish()
            }
        }

        private mutating func claim() {
            guard inFlight.count < 32 else { return }
            // Half of the due timelines belong to provider 0.
            let due = (0..<10).map {
                LaneTimelines(KindLane(kindID: Int32($0), lane: .push), count: $0 == 0 ? 900 : 100)
            }
            let permitted = protection.permitted(targets, at: time)
            let capacity = ClaimCapacity(
                timelines: 1_000, patientTimelines: 1_000, concurrency: 32,
                requestsPerProvider: 8, inFlight: held, allowances: permitted.allowances)
            for request in scheduler.plan(due: due, targets: permitted.targets, capacity: capacity).requests {
                var left = request.count
                while left > 0 {
                    start(Int(request.queue.kindID), min(left, 10))
                    left -= 10
                }
            }
        }

        private mutating func start(_ provider: Int, _ timelines: Int) {
            let key = Self.key(provider)
            var held = held[key] ?? HeldSlots()
            held.add(1, .push)
            guard case .go(let ticket) = protection.begin(key, held: held, lane: .push, at: time) else {
                return
            }
            asked[provider] += 1
            let latency: Duration =
                switch health(provider, time) {
                case .well: Self.latency
                case .hangs: Self.timeout
                case .refuses: .milliseconds(1)
                case .slow: .seconds(7)
                }
            inFlight.append(
                Request(provider: provider, ends: time + latency, timelines: timelines, ticket: ticket))
        }

        private mutating func finish() {
            for request in inFlight where request.ends <= time {
                switch health(request.provider, request.ticket.startedAt) {
                case .well, .slow:
                    answered[request.provider] += request.timelines
                    protection.recordAnswer(request.ticket, timeout: Self.timeout, at: time)
                case .hangs: protection.recordFailure(request.ticket, ProviderFailure(.timeout, "late"), at: time)
                case .refuses:
                    protection.recordFailure(request.ticket, ProviderFailure(.connection, "refused"), at: time)
                }
            }
            inFlight.removeAll { $0.ends <= time }
        }

        var othersAnswered: Int { answered[1...].reduce(0, +) }
    }

    /// Throughput of the other nine while provider 0 works, for comparison.
    private func healthyThroughput(_ seconds: Int) -> (others: Int, first: Int) {
        var world = World { _, _ in .well }
        world.run(until: .seconds(seconds))
        return (world.othersAnswered, world.answered[0])
    }

    @Test func aProviderThatHangsCostsOnlyItsOwnShare() {
        let healthy = healthyThroughput(60)
        var world = World { provider, _ in provider == 0 ? .hangs : .well }
        world.run(until: .seconds(10))
        #expect(world.asked[0] <= 8, "no more than the initial limit before the first answer")
        let afterOneTimeout = world.othersAnswered
        world.run(until: .seconds(60))
        #expect(world.othersAnswered - afterOneTimeout >= healthy.others * 5 / 6 * 98 / 100)
        #expect(world.othersAnswered >= healthy.others * 95 / 100)
        // Eight slots for one timeout, then one probe at a time.
        #expect(world.heldSlotSeconds <= 80 + 50)
        #expect(world.asked[0] <= 14)
        #expect(world.answered[0] == 0)
    }

    @Test func aProviderThatRefusesIsHardlyAsked() {
        let healthy = healthyThroughput(60)
        var world = World { provider, _ in provider == 0 ? .refuses : .well }
        world.run(until: .seconds(60))
        #expect(world.othersAnswered >= healthy.others)
        #expect(world.asked[0] <= 8 + 10, "the first requests, then increasingly rare probes")
    }

    @Test func aSlowProviderIsGivenOneSlot() {
        let healthy = healthyThroughput(60)
        var world = World { provider, _ in provider == 0 ? .slow : .well }
        world.run(until: .seconds(60))
        #expect(world.protection.limit(of: ProviderKey(appID: 0, app: "a", url: "http://p0")) == 1)
        #expect(world.othersAnswered >= healthy.others * 94 / 100)
        #expect(world.answered[0] > 0, "the failing provider is still served")
    }

    @Test func aProviderThatComesBackIsServedAgain() {
        let healthy = healthyThroughput(30)
        var world = World { provider, time in
            provider == 0 && time < .seconds(20) ? .refuses : .well
        }
        world.run(until: .seconds(60))
        let before = world.answered[0]
        world.run(until: .seconds(90))
        #expect(world.answered[0] - before >= healthy.first * 95 / 100)
    }

    @Test func severalThatHangAtOnceLeaveSlotsFree() {
        // Three providers have used all their slots when all of them hang at once. A fourth one would take the
        // remaining slots for one timeout.
        var world = World { provider, time in
            provider < 3 && time >= .seconds(30) ? .hangs : .well
        }
        world.run(until: .seconds(30))
        let before = world.answered[9]
        world.run(until: .seconds(42))
        let during = world.answered[9]
        #expect(during - before >= before * 2 / 5 / 5, "a fifth of its pace until the outage is known")
        world.run(until: .seconds(102))
        #expect(world.answered[9] - during >= before * 2 * 95 / 100, "its full pace afterwards")
    }
}

struct ProviderProtectionTests {
    private func protection(maximum: Int = 10_000) -> (ProviderProtection, MetricRegistry) {
        var rules = ProtectionRules()
        rules.maximumProviders = maximum
        rules.consecutiveFailures = 3
        let metrics = MetricRegistry()
        return (
            ProviderProtection(
                rules, metrics: metrics, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }),
            metrics
        )
    }

    private func fail(_ protection: ProviderProtection, _ key: ProviderKey, at time: Duration) {
        guard
            case .go(let ticket) = protection.begin(key, held: HeldSlots(), lane: .push, at: time)
        else { return }
        protection.recordFailure(ticket, ProviderFailure(.connection, "refused"), at: time)
    }

    @Test func providersAreApart() {
        let (protection, metrics) = protection()
        let (sick, well) = (
            ProviderKey(appID: 1, app: "a", url: "http://p"), ProviderKey(appID: 2, app: "a", url: "http://p")
        )
        for _ in 0..<3 { fail(protection, sick, at: .zero) }
        #expect(!protection.isAvailable(sick, at: .zero))
        #expect(protection.isAvailable(well, at: .zero), "one URL of two apps")
        #expect(metrics.breakersOpen.total() == 1 && metrics.breakersOpened.total() == 1)
        let targets: [Int32: ClaimTarget] = [
            1: ClaimTarget(appID: 1, provider: sick, maxBatch: 10),
            2: ClaimTarget(appID: 2, provider: well, maxBatch: 10),
            3: ClaimTarget(appID: 1, provider: sick, maxBatch: 10, asksProvider: false),
        ]
        let during = protection.permitted(targets, at: .zero).targets
        #expect(Set(during.keys) == [2, 3], "collected timelines cause no request")
        let (after, allowances) = protection.permitted(targets, at: .seconds(2))
        #expect(Set(after.keys) == [1, 2, 3])
        #expect(allowances[sick] == ProviderAllowance(requests: 1, timelines: 1), "a probe")
    }

    @Test func aProbeIsOneTimelineOfAllItsKinds() {
        let (protection, _) = protection()
        let sick = ProviderKey(appID: 1, app: "a", url: "http://p")
        for _ in 0..<3 { fail(protection, sick, at: .zero) }
        let targets = Dictionary(
            uniqueKeysWithValues: (1...3).map {
                (Int32($0), ClaimTarget(appID: 1, provider: sick, maxBatch: 10))
            })
        let due = (1...3).flatMap { kind in
            [ReloadLane.interactive, .push, .bulk].map {
                LaneTimelines(KindLane(kindID: Int32(kind), lane: $0), count: 50)
            }
        }
        let permitted = protection.permitted(targets, at: .seconds(2))
        let capacity = ClaimCapacity(
            timelines: 1_000, patientTimelines: 1_000, concurrency: 32, requestsPerProvider: 8,
            inFlight: [:], allowances: permitted.allowances)
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(due: due, targets: permitted.targets, capacity: capacity)
        #expect(plan.requests.map(\.count) == [1])
        #expect(plan.isHeldBack && !plan.isFull)
    }

    @Test(arguments: [
        // Limit of the provider, slots of 32 held by it and by the others, and the further slots that it gets.
        (32, 0, 0, 16), (12, 0, 0, 12), (32, 10, 0, 6), (32, 16, 0, 0), (32, 0, 16, 8), (32, 0, 28, 4), (32, 4, 20, 4),
        (32, 10, 10, 1), (3, 1, 0, 2), (1, 1, 0, 0),
    ])
    func aProviderWithAGrownLimitLeavesSlotsForOthers(limit: Int, own: Int, others: Int, room: Int) {
        let (grown, other) = (
            ProviderKey(appID: 1, app: "a", url: "http://p"), ProviderKey(appID: 2, app: "a", url: "http://p")
        )
        var inFlight: [ProviderKey: HeldSlots] = [grown: HeldSlots(), other: HeldSlots()]
        inFlight[grown]?.add(own, .push)
        inFlight[other]?.add(others, .push)
        var capacity = ClaimCapacity(
            timelines: 1_000, patientTimelines: 1_000, concurrency: 32,
            requestsPerProvider: 8, inFlight: inFlight)
        capacity.allowances = [grown: ProviderAllowance(requests: limit)]
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(
            due: [LaneTimelines(KindLane(kindID: 1, lane: .push), count: 1_000)],
            targets: [1: ClaimTarget(appID: 1, provider: grown, maxBatch: 10)], capacity: capacity)
        #expect(plan.requests.map(\.count).reduce(0, +) == room * 10)
    }

    @Test func theNumberOfProvidersIsBounded() {
        let (protection, metrics) = protection(maximum: 100)
        for number in 0..<1_000 {
            for _ in 0..<3 {
                fail(protection, ProviderKey(appID: Int32(number), app: "a", url: "http://p"), at: .seconds(number))
            }
            #expect(metrics.breakersOpen.total() <= 100)
        }
        #expect(metrics.breakersOpened.total() == 1_000)
    }
}
