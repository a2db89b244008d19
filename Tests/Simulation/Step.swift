// SPDX-License-Identifier: Apache-2.0

import Randomness

/// A step of a schedule. An impossible step has no effect, so every list of steps is a schedule. Numbers select among
/// the possible objects.
package enum Step: Hashable, Sendable {
    // The log and its consumers.

    case produce(what: UInt8, of: UInt8, how: UInt8)
    /// The group assigns the partition to a process. The previous owner may not know yet.
    case assign(partition: UInt8, to: UInt8)
    /// The process learns of all its lost partitions.
    case tell(UInt8)
    case crashIngest(UInt8)
    case poll(ingest: UInt8, count: UInt8)
    /// Runs this many steps of the batch's transaction; the last one has the fault.
    case apply(ingest: UInt8, steps: UInt8, fault: Fault, hasRoom: Bool)

    // Sweepers.

    case beginWalk(worker: UInt8, kind: UInt8)
    case endWalk(worker: UInt8, limit: UInt8, fault: Fault)

    // Workers.

    case beginClaim(worker: UInt8, takesTokenFirst: Bool)
    case endClaim(worker: UInt8, limit: UInt8, fault: Fault)
    /// Runs this many steps of a job; the last one has the fault.
    case work(worker: UInt8, pick: UInt8, steps: UInt8, fault: Fault, how: UInt8)
    case crashWorker(UInt8)
    /// The worker returns its lists.
    case stopWorker(UInt8)

    // The topic of timelines.

    case land(UInt8)
    case lose(UInt8)
    /// The sender gives up; the message arrives at any later time.
    case delay(UInt8)

    // Operators and time.

    case pause(UInt8)
    case resume(UInt8)
    case cancel(UInt8)
    /// Seconds.
    case pass(Int)
}

/// Generates schedules. Each has its own weights: steps that are frequent in one never happen in another.
struct StepGenerator {
    private enum Sort: Int, CaseIterable {
        case produce, assign, tell, crashIngest, poll, apply, beginWalk, endWalk, beginClaim, endClaim, work, finish
        case crashWorker, stopWorker, land, lose, delay, pause, resume, cancel, pass

        /// Usual frequency, and whether a schedule may omit the step.
        var weight: (usual: Int, isOptional: Bool) {
            switch self {
            case .produce: (10, false)
            case .assign: (2, true)
            case .tell: (1, true)
            case .crashIngest: (1, true)
            case .poll: (8, false)
            case .apply: (30, false)
            case .beginWalk: (4, true)
            case .endWalk: (5, false)
            case .beginClaim: (9, false)
            case .endClaim: (10, false)
            case .work: (40, false)
            case .finish: (8, true)
            case .crashWorker: (2, true)
            case .stopWorker: (1, true)
            case .land: (10, true)
            case .lose: (1, true)
            case .delay: (2, true)
            case .pause: (1, true)
            case .resume: (1, false)
            case .cancel: (2, true)
            case .pass: (8, false)
            }
        }
    }

    var random: SeededGenerator
    private var sorts: [Sort] = []
    /// Values for `Simulation.produce`; few types per schedule, so that they interact.
    private let events: [UInt8]
    private let faults: Int
    private let daring: Int
    /// Frequency, in quarters, of room in the workers of ingest's process.
    private let handOvers: Int

    init(_ random: SeededGenerator) {
        var random = random
        faults = [0, 1, 3, 8][random.below(4)]
        daring = random.below(3)
        handOvers = [0, 1, 4][random.below(3)]
        var events: [UInt8] = []
        for _ in 0..<[2, 3, 12, 12][random.below(4)] { events.append(UInt8(random.below(12))) }
        self.events = events
        for sort in Sort.allCases {
            let (usual, isOptional) = sort.weight
            var weight = usual
            if isOptional { weight *= [0, 1, 1, 3][random.below(4)] }
            sorts.append(contentsOf: repeatElement(sort, count: weight))
        }
        self.random = random
    }

    mutating func schedule() -> [Step] {
        var steps: [Step] = (0..<SimulatedWorld.partitions).map {
            .assign(partition: UInt8($0), to: UInt8($0))
        }
        for widget in 0..<SimulatedWorld.widgets where random.chance(2, of: 3) {
            steps.append(.produce(what: 0, of: UInt8(widget), how: random.byte()))
        }
        let count = 40 + random.below(260)
        steps.reserveCapacity(count + 16)
        for _ in 0..<count { steps.append(next()) }
        return steps
    }

    private mutating func next() -> Step {
        let process = UInt8(random.below(SimulatedWorld.workers))
        let pick = random.byte()
        switch sorts[random.below(sorts.count)] {
        case .produce:
            return .produce(
                what: events[Int(pick) % events.count], of: random.byte(), how: random.byte())
        case .assign: return .assign(partition: pick % 2, to: process % 2)
        case .tell: return .tell(process % 2)
        case .crashIngest: return .crashIngest(process % 2)
        case .poll: return .poll(ingest: process % 2, count: 1 + pick % 4)
        case .apply:
            return .apply(
                ingest: process % 2, steps: UInt8([1, 1, 2, 3, 5, 7, 16, 16][random.below(8)]), fault: fault(),
                hasRoom: random.chance(handOvers, of: 4))
        case .beginWalk: return .beginWalk(worker: process, kind: pick % 2)
        case .endWalk: return .endWalk(worker: process, limit: 1 + random.byte() % 4, fault: fault())
        case .beginClaim: return .beginClaim(worker: process, takesTokenFirst: pick % 2 == 0)
        case .endClaim: return .endClaim(worker: process, limit: 1 + random.byte() % 6, fault: fault())
        case .work:
            return .work(
                worker: process, pick: pick, steps: UInt8([1, 1, 1, 2, 3, 4, 5][random.below(7)]), fault: fault(),
                how: random.byte())
        case .finish: return .work(worker: process, pick: pick, steps: 30, fault: .none, how: random.byte())
        case .crashWorker: return .crashWorker(process)
        case .stopWorker: return .stopWorker(process)
        case .land: return .land(pick)
        case .lose: return .lose(pick)
        case .delay: return .delay(pick)
        case .pause: return .pause(pick % 2)
        case .resume: return .resume(pick % 2)
        case .cancel: return .cancel(pick % 2)
        case .pass: return .pass(time())
        }
    }

    private mutating func fault() -> Fault {
        guard random.chance(faults, of: 20) else { return .none }
        return random.chance(1, of: 2) ? .lostBefore : .lostAfter
    }

    private mutating func time() -> Int {
        switch (daring, random.below(10)) {
        case (_, 0...4): random.below(3)
        case (_, 5): 20 + random.below(60)
        case (0, _): random.below(8)
        case (_, 6...7): 60 + random.below(600)
        case (1, _): 3_600 + random.below(86_400)
        default: [3_600, 86_400, 15 * 86_400][random.below(3)]
        }
    }
}
