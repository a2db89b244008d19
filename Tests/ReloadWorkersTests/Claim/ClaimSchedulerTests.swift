// SPDX-License-Identifier: Apache-2.0

import Randomness
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Distribution of room among lanes, apps and kinds.
struct ClaimSchedulerTests {
    private static func row(_ kindID: Int32, _ lane: ReloadLane, _ count: Int) -> LaneTimelines {
        LaneTimelines(KindLane(kindID: kindID, lane: lane), count: count)
    }

    /// App 1 has kinds 11, 12, … at one provider; app 2 has kinds 21, 22, … at another.
    private static func targets(maxBatch: Int = 100, _ kinds: Int32...) -> [Int32: ClaimTarget] {
        Dictionary(
            uniqueKeysWithValues: kinds.map { kind in
                let app = kind / 10
                return (
                    kind,
                    ClaimTarget(
                        appID: app, provider: ProviderKey(appID: app, app: "a", url: "http://p\(app)"),
                        maxBatch: maxBatch)
                )
            })
    }

    private static func held(_ urgent: Int) -> HeldSlots {
        var held = HeldSlots()
        held.add(urgent, .push)
        return held
    }

    private static func capacity(
        _ timelines: Int, patient: Int? = nil, concurrency: Int = 100, perProvider: Int = 100,
        inFlight: [ProviderKey: HeldSlots] = [:]
    ) -> ClaimCapacity {
        ClaimCapacity(
            timelines: timelines, patientTimelines: patient ?? timelines, concurrency: concurrency,
            requestsPerProvider: perProvider, inFlight: inFlight)
    }

    private typealias Plan = (requests: [LaneTimelines], isHeldBack: Bool, isFull: Bool)

    private func count(_ plan: Plan, _ lane: ReloadLane) -> Int {
        plan.requests.filter { $0.queue.lane == lane }.map(\.count).reduce(0, +)
    }

    private func count(_ plan: Plan, kind: Int32) -> Int {
        plan.requests.filter { $0.queue.kindID == kind }.map(\.count).reduce(0, +)
    }

    @Test func everythingIsClaimedWhenThereIsRoom() {
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(
            due: [Self.row(11, .push, 30), Self.row(21, .bulk, 7)], targets: Self.targets(11, 21),
            capacity: Self.capacity(1_000))
        #expect(count(plan, kind: 11) == 30 && count(plan, kind: 21) == 7)
        #expect(!plan.isFull && !plan.isHeldBack)
    }

    @Test func lanesShareByWeightAndEachIsServed() {
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(
            due: ReloadLane.allCases.map { Self.row(11, $0, 10_000) }, targets: Self.targets(11),
            capacity: Self.capacity(1_500))
        #expect(plan.isFull)
        #expect(abs(count(plan, .interactive) - 800) <= 50)
        #expect(abs(count(plan, .push) - 400) <= 50)
        #expect(abs(count(plan, .scheduled) - 200) <= 50)
        #expect(abs(count(plan, .bulk) - 100) <= 50)
    }

    @Test func sharesHoldOverManySmallClaims() {
        var scheduler = ClaimScheduler()
        var served: [ReloadLane: Int] = [:]
        for _ in 0..<300 {
            let plan = scheduler.plan(
                due: ReloadLane.allCases.map { Self.row(11, $0, 1_000) }, targets: Self.targets(maxBatch: 1, 11),
                capacity: Self.capacity(1))
            for request in plan.requests { served[request.queue.lane, default: 0] += request.count }
        }
        #expect(served == [.interactive: 160, .push: 80, .scheduled: 40, .bulk: 20])
    }

    @Test func anUrgentLaneThatWasEmptyGoesFirstButHasSavedNoCredit() {
        var scheduler = ClaimScheduler()
        for _ in 0..<50 {
            _ = scheduler.plan(
                due: [Self.row(11, .bulk, 10_000)], targets: Self.targets(11), capacity: Self.capacity(100))
        }
        let both = [Self.row(11, .interactive, 10_000), Self.row(11, .bulk, 10_000)]
        let first = scheduler.plan(due: both, targets: Self.targets(11), capacity: Self.capacity(25))
        #expect(count(first, .interactive) == 25)
        let next = scheduler.plan(due: both, targets: Self.targets(11), capacity: Self.capacity(900))
        #expect(abs(count(next, .bulk) - 100) <= 50)
    }

    @Test func appsShareEquallyHoweverManyKindsTheyHave() {
        var scheduler = ClaimScheduler()
        let kinds: [Int32] = [11, 12, 13, 14, 21]
        let plan = scheduler.plan(
            due: kinds.map { Self.row($0, .push, 5_000) }, targets: Self.targets(11, 12, 13, 14, 21),
            capacity: Self.capacity(1_000))
        #expect(count(plan, kind: 21) == 500)
        for kind in kinds.dropLast() { #expect(abs(count(plan, kind: kind) - 125) <= 75) }
    }

    @Test func turnsGoOnWhereTheLastClaimStopped() {
        var scheduler = ClaimScheduler()
        var served: [Int32: Int] = [:]
        for _ in 0..<40 {
            let plan = scheduler.plan(
                due: [11, 12, 21, 31].map { Self.row($0, .push, 5_000) }, targets: Self.targets(11, 12, 21, 31),
                capacity: Self.capacity(100))
            for request in plan.requests { served[request.queue.kindID, default: 0] += request.count }
        }
        #expect(abs(served[21, default: 0] - served[31, default: 0]) <= 100)
        #expect(abs(served[11, default: 0] - served[12, default: 0]) <= 100)
        #expect(abs(served[11, default: 0] + served[12, default: 0] - served[21, default: 0]) <= 100)
    }

    @Test func onlyWhatAProviderHasFreeSlotsForIsClaimed() {
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(
            due: [Self.row(11, .push, 1_000), Self.row(21, .push, 1_000)], targets: Self.targets(maxBatch: 10, 11, 21),
            capacity: Self.capacity(
                1_000, perProvider: 8,
                inFlight: [
                    ProviderKey(appID: 1, app: "a", url: "http://p1"): Self.held(6),
                    ProviderKey(appID: 2, app: "a", url: "http://p2"): Self.held(8),
                ]))
        #expect(count(plan, kind: 11) == 20)
        #expect(count(plan, kind: 21) == 0)
        #expect(plan.isHeldBack && !plan.isFull)
    }

    @Test func slotsAreCountedInRequestsNotTimelines() {
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(
            due: [Self.row(11, .push, 3), Self.row(21, .push, 3), Self.row(31, .push, 3)],
            targets: Self.targets(11, 21, 31), capacity: Self.capacity(1_000, concurrency: 2))
        #expect(plan.requests.count == 2)
        #expect(plan.isHeldBack)
    }

    @Test("Kinds of one provider share requests, those of another URL do not")
    func sharedRequests() {
        var targets = Self.targets(maxBatch: 10, 11, 12, 13)
        let due = [11, 12, 13].map { Self.row($0, .push, 3) }
        var scheduler = ClaimScheduler()
        let together = scheduler.plan(due: due, targets: targets, capacity: Self.capacity(1_000, concurrency: 1))
        #expect(together.requests.map(\.count) == [3, 3, 3] && !together.isHeldBack)
        targets[13] = ClaimTarget(
            appID: 1, provider: ProviderKey(appID: 1, app: "a", url: "http://other"), maxBatch: 10)
        let apart = scheduler.plan(due: due, targets: targets, capacity: Self.capacity(1_000, concurrency: 1))
        #expect(Set(apart.requests.map(\.queue.kindID)) == [11, 12] || apart.requests.map(\.queue.kindID) == [13])
        #expect(apart.isHeldBack)
    }

    @Test func urgentLanesOfAKindShareARequestAndSoDoPatientOnes() {
        var scheduler = ClaimScheduler()
        let urgent = scheduler.plan(
            due: [Self.row(11, .interactive, 5), Self.row(11, .push, 1_000)], targets: Self.targets(11),
            capacity: Self.capacity(1_000, concurrency: 1))
        #expect(count(urgent, .interactive) == 5 && count(urgent, .push) == 95)
        let patient = scheduler.plan(
            due: [Self.row(11, .scheduled, 5), Self.row(11, .bulk, 1_000)], targets: Self.targets(11),
            capacity: Self.capacity(1_000, concurrency: 1))
        #expect(count(patient, .scheduled) == 5 && count(patient, .bulk) == 95)
    }

    @Test func patientLanesDoNotFillUpAnUrgentRequest() {
        var scheduler = ClaimScheduler()
        let plan = scheduler.plan(
            due: [Self.row(11, .push, 5), Self.row(11, .bulk, 1_000)], targets: Self.targets(11),
            capacity: Self.capacity(1_000, concurrency: 4, perProvider: 4))
        #expect(count(plan, .push) == 5 && count(plan, .bulk) == 200)
        #expect(plan.isHeldBack && !plan.isFull)
    }

    @Test(arguments: [
        // Slots; slots held by bulk, scheduled and urgent requests; further requests that each lane may start.
        (8, [0, 0, 0], [8, 8, 6, 4]), (8, [3, 0, 0], [5, 5, 3, 1]), (8, [4, 0, 0], [4, 4, 2, 0]),
        (8, [8, 0, 0], [0, 0, 0, 0]), (8, [0, 6, 0], [2, 2, 0, 0]), (8, [0, 5, 0], [3, 3, 1, 1]),
        // Slots that urgent requests hold exclude no lane from free slots.
        (8, [0, 0, 7], [1, 1, 1, 1]), (8, [0, 0, 3], [5, 5, 5, 4]), (8, [1, 1, 5], [1, 1, 1, 1]),
        (3, [0, 0, 0], [3, 3, 3, 2]), (2, [0, 0, 0], [2, 2, 2, 1]), (1, [0, 0, 0], [1, 1, 1, 1]),
        (1, [1, 0, 0], [0, 0, 0, 0]),
    ])
    func patientLanesLeaveSlotsFree(slots: Int, taken: [Int], requests: [Int]) {
        var held = HeldSlots()
        for (lane, count) in zip([ReloadLane.bulk, .scheduled, .push], taken) { held.add(count, lane) }
        for (lane, expected) in zip(ReloadLane.allCases, requests) {
            let due = [Self.row(11, lane, 1_000)]
            let targets = Self.targets(maxBatch: 10, 11)
            var scheduler = ClaimScheduler()
            let ofProvider = scheduler.plan(
                due: due, targets: targets,
                capacity: Self.capacity(
                    1_000, perProvider: slots, inFlight: [ProviderKey(appID: 1, app: "a", url: "http://p1"): held]))
            #expect(count(ofProvider, lane) == expected * 10, "\(lane)")
            #expect(ofProvider.isHeldBack && !ofProvider.isFull)
            let ofAll = scheduler.plan(
                due: due, targets: targets,
                capacity: Self.capacity(
                    1_000, concurrency: slots,
                    inFlight: [ProviderKey(appID: 2, app: "a", url: "http://p2"): held]))
            #expect(count(ofAll, lane) == expected * 10, "\(lane)")
        }
    }

    @Test func noLaneStarvesWhileAnUrgentOneIsNeverDone() {
        // Slots come free one at a time and pushes never end: the other lanes get their shares.
        var scheduler = ClaimScheduler()
        var held = HeldSlots()
        held.add(7, .push)
        let provider = ProviderKey(appID: 1, app: "a", url: "http://p1")
        var served: [ReloadLane: Int] = [:]
        for _ in 0..<700 {
            let plan = scheduler.plan(
                due: [.push, .scheduled, .bulk].map { Self.row(11, $0, 1_000) },
                targets: Self.targets(maxBatch: 25, 11),
                capacity: Self.capacity(1_000, concurrency: 8, perProvider: 8, inFlight: [provider: held]))
            for request in plan.requests { served[request.queue.lane, default: 0] += request.count }
        }
        #expect(served == [.push: 10_000, .scheduled: 5_000, .bulk: 2_500])
    }

    @Test func patientLanesTakeASmallPartOfAClaim() {
        var scheduler = ClaimScheduler()
        let due = [Self.row(11, .push, 300), Self.row(11, .scheduled, 1_000), Self.row(12, .bulk, 1_000)]
        let plan = scheduler.plan(
            due: due, targets: Self.targets(11, 12), capacity: Self.capacity(1_000, patient: 250))
        #expect(count(plan, .push) == 300)
        #expect(count(plan, .scheduled) + count(plan, .bulk) == 250)
        #expect(plan.isFull && !plan.isHeldBack, "there is room for the next claim at once")
    }

    @Test("A list is leased as a whole and counts as a whole: many kinds with large lists do not exceed the room")
    func wholeLists() {
        var scheduler = ClaimScheduler()
        let kinds = (0..<160).map { Int32(10 * ($0 + 1) + 1) }
        let sizes = Array(repeating: 200, count: 64)
        let due = kinds.map { LaneTimelines(KindLane(kindID: $0, lane: .push), count: 12_800, sizes: sizes) }
        let targets = Dictionary(
            uniqueKeysWithValues: kinds.map { kind in
                let provider = ProviderKey(appID: kind, app: "a", url: "http://p\(kind)")
                return (kind, ClaimTarget(appID: kind, provider: provider, maxBatch: 25))
            })
        var served: [Int32: Int] = [:]
        for _ in 0..<16 {
            let plan = scheduler.plan(
                due: due, targets: targets, capacity: Self.capacity(4_000, concurrency: 1_000, perProvider: 8))
            #expect(plan.requests.allSatisfy { $0.count == 200 * $0.sizes.count })
            #expect((4_000..<4_200).contains(plan.requests.reduce(0) { $0 + $1.count }) && plan.isFull)
            for request in plan.requests { served[request.queue.kindID, default: 0] += request.count }
        }
        #expect(served.count == kinds.count && Set(served.values) == [400], "kinds take turns")
    }

    @Test("The largest list of a kind with small batches takes no more slots than are free")
    func listBeyondSlots() {
        var scheduler = ClaimScheduler()
        let due = [11, 21].map { LaneTimelines(KindLane(kindID: $0, lane: .push), count: 400, sizes: [200, 200]) }
        let plan = scheduler.plan(
            due: due, targets: Self.targets(maxBatch: 1, 11, 21),
            capacity: Self.capacity(1_000, concurrency: 16, perProvider: 8))
        #expect(count(plan, kind: 11) == 200 && count(plan, kind: 21) == 200 && plan.isHeldBack)
    }

    @Test func unknownKindsAndASaturatedWorkerGetNothing() {
        var scheduler = ClaimScheduler()
        let due = [Self.row(99, .push, 10)]
        let unknown = scheduler.plan(due: due, targets: Self.targets(11), capacity: Self.capacity(1_000))
        #expect(unknown.requests.isEmpty && !unknown.isHeldBack && !unknown.isFull)
        let saturated = scheduler.plan(
            due: [Self.row(11, .push, 10)], targets: Self.targets(11), capacity: Self.capacity(1_000, concurrency: 0))
        #expect(saturated.requests.isEmpty && saturated.isHeldBack)
    }

    @Test(arguments: 0..<50)
    func neverMoreThanThereIsRoomFor(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var scheduler = ClaimScheduler()
        for _ in 0..<20 {
            let kinds: [Int32] = [11, 12, 21, 22, 31]
            let maxBatch = Int.random(in: 1...120, using: &generator)
            let due = kinds.flatMap { kind in
                ReloadLane.allCases.map { Self.row(kind, $0, Int.random(in: 0...300, using: &generator)) }
            }
            let capacity = Self.capacity(
                Int.random(in: 0...800, using: &generator), patient: Int.random(in: 0...300, using: &generator),
                concurrency: Int.random(in: 0...9, using: &generator),
                perProvider: Int.random(in: 0...4, using: &generator))
            let plan = scheduler.plan(
                due: due, targets: Self.targets(maxBatch: maxBatch, 11, 12, 21, 22, 31), capacity: capacity)
            let claimed = plan.requests.map(\.count).reduce(0, +)
            #expect(claimed <= capacity.timelines)
            let patient = count(plan, .scheduled) + count(plan, .bulk)
            #expect(patient <= capacity.patientTimelines)
            let requests = [Int32(1), 2, 3].map { app in
                [true, false].map { isUrgent in
                    let requests = plan.requests.filter {
                        $0.queue.kindID / 10 == app && $0.queue.lane.isUrgent == isUrgent
                    }
                    return (requests.map(\.count).reduce(0, +) + maxBatch - 1) / maxBatch
                }.reduce(0, +)
            }
            #expect(requests.reduce(0, +) <= capacity.concurrency)
            #expect(requests.allSatisfy { $0 <= capacity.requestsPerProvider })
            for request in plan.requests {
                let available =
                    due.first { $0.queue.kindID == request.queue.kindID && $0.queue.lane == request.queue.lane }?.count
                    ?? 0
                #expect(request.count > 0 && request.count <= available)
            }
            let available = due.map(\.count).reduce(0, +)
            if claimed < available { #expect(plan.isFull || plan.isHeldBack) }
        }
    }
}
