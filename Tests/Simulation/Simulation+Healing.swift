// SPDX-License-Identifier: Apache-2.0

import Randomness
import WidgetModel

// After healing no more faults happen: all pending work is done, and the invariants are checked.

extension Simulation {
    /// Maximum number of rounds until no work is left. A round is everything that can be done at one time.
    private static let rounds = 300
    /// Number of rounds in which providers still request reloads by policy, in some schedules.
    private static let busyRounds = 40
    /// Maximum number of steps per round.
    private static let steps = 2_000

    mutating func heal() {
        isHealed = true
        for partition in owners.indices {
            let owner = owners[partition] ?? random.below(SimulatedWorld.ingests)
            if owners[partition] == nil { ingests[owner].assign(partition) }
            owners[partition] = owner
            for process in ingests.indices where process != owner { ingests[process].revoke(partition) }
        }
        let busy = random.chance(1, of: 4) ? Self.busyRounds : 0
        for round in 0..<Self.rounds {
            isCalm = round >= busy
            let isBusy = doAll()
            checkLists()
            if database.witness.violation != nil { return }
            if isBusy { continue }
            guard let next = database.tables.work.entries.map(\.row.readyAt).min() else { return landOverdue() }
            pass(max(next - now, .zero))
        }
        database.witness.violated(.liveness, "not quiet after \(Self.rounds) rounds, at \(now)")
    }

    /// Does everything that can be done now; returns false if there was nothing.
    private mutating func doAll() -> Bool {
        for kind in database.tables.kinds.indices where database.tables.kinds[kind].isPaused { setPaused(kind, false) }
        var isBusy = false
        for _ in 0..<Self.steps {
            if database.witness.violation != nil { return false }
            if world.ticks { now = now + .microseconds(1) }
            guard doOne() else { return isBusy }
            isBusy = true
        }
        database.witness.violated(.liveness, "not quiet after \(Self.steps) steps at \(now)")
        return false
    }

    /// Runs one step of every process; returns false if none has work.
    private mutating func doOne() -> Bool {
        var isBusy = false
        var waits = 0
        while output.flights.count > waits {
            let place = random.below(output.flights.count)
            if output.flights[place].isOverdue, random.chance(9, of: 10) {
                waits += 1
            } else {
                output.land(at: place, &database.witness)
                isBusy = true
            }
        }
        for process in ingests.indices {
            ingests[process].take(&database, at: now)
            ingests[process].poll(log, count: 100)
            if !ingests[process].batch.isEmpty || ingests[process].transaction != nil {
                apply(process, fault: .none, hasRoom: random.chance(1, of: 2))
                isBusy = true
            }
        }
        for worker in workers.indices {
            for place in workers[worker].jobs.indices.reversed() {
                work(worker, place, fault: .none, how: random.below(1_000))
                isBusy = true
            }
        }
        let worker = random.below(workers.count)
        for kind in database.tables.kinds.indices {
            workers[worker].beginWalk(kind, &database, at: now)
            if workers[worker].endWalk(&database, limit: 1 + random.below(4), fault: .none, at: now) { isBusy = true }
        }
        workers[worker].beginClaim(&database, takesTokenFirst: random.chance(1, of: 2), at: now)
        workers[worker].endClaim(&database, limit: 1 + random.below(8), fault: .none, at: now)
        return isBusy || !workers[worker].jobs.isEmpty
    }

    private mutating func landOverdue() {
        while !output.flights.isEmpty { output.land(at: random.below(output.flights.count), &database.witness) }
    }

    // MARK: Invariants during and after the run

    /// Checks that superseded lists are at most a day ahead and few for each timeline.
    private mutating func checkLists() {
        let count = database.tables.work.entries.count
        if count > 60 { database.witness.violated(.liveness, "there are \(count) lists at \(now)") }
    }

    mutating func checkQuiet() {
        var witness = database.witness
        for partition in log.indices where witness.applied[partition] != log[partition].count {
            witness.violated(
                .exactlyOnce,
                "partition \(partition): \(witness.applied[partition]) of \(log[partition].count) events were applied")
        }
        checkGenerations(&witness)
        checkWidgets(&witness)
        for identity in 0..<SimulatedWorld.identities { check(identity, &witness) }
        database.witness = witness
    }

    private func checkGenerations(_ witness: inout Witness) {
        var kinds: [Int64] = Array(repeating: 0, count: SimulatedWorld.kinds)
        for case .reloadKind(let kind, _) in log.joined() {
            for kind in kind.map({ [$0] }) ?? Array(kinds.indices) { kinds[kind] += 1 }
        }
        let found = database.tables.kinds.map(\.generations.current)
        if found != kinds { witness.violated(.exactlyOnce, "generations are \(found), not \(kinds)") }
    }

    private func checkWidgets(_ witness: inout Witness) {
        var newest: [(time: Int, identity: Int?)?] = Array(repeating: nil, count: SimulatedWorld.widgets)
        for event in log.joined() {
            switch event {
            case .place(let widget, let identity, let time) where time >= newest[widget]?.time ?? .min:
                newest[widget] = (time, identity)
            case .remove(let widget, let time) where time >= newest[widget]?.time ?? .min:
                newest[widget] = (time, nil)
            default: break
            }
        }
        for widget in newest.indices {
            let timeline = database.tables.widgets[widget]?.timeline
            let found = timeline.flatMap { database.tables.timelines[$0]?.identity }
            let expected = newest[widget]?.identity
            if found != expected {
                witness.violated(
                    timeline != nil && found == nil ? .noLostReload : .exactlyOnce,
                    "widget \(widget) shows \(found.map(String.init) ?? "nothing"), not "
                        + "\(expected.map(String.init) ?? "nothing")")
            }
        }
    }

    private func check(_ identity: Int, _ witness: inout Witness) {
        let last = output.last[identity]?.message
        let shown = output.shown[identity]
        guard let (id, row) = database.tables.timeline(of: identity) else {
            if last?.value != nil, !output.mayEndLate(identity, isCollected: true) {
                witness.violated(
                    .publishedIsStored, "identity \(identity) was collected, and its last message says otherwise")
            }
            if let shown, shown.value != nil {
                witness.violated(
                    .publishedIsStored, "identity \(identity) was collected, and consumers show \(shown)")
            }
            return
        }
        if !database.tables.isShown(id) {
            witness.violated(.liveness, "timeline \(id) is shown by nothing, and is there")
        }
        witness.expectServed(id, row)
        let stored = Message(revision: row.contentRevision, value: row.content)
        if shown != stored {
            witness.violated(
                .publishedIsStored,
                "timeline \(id): stored is \(stored), the highest revision published "
                    + "\(shown.map { "\($0)" } ?? "none")")
        }
        if last != stored, !output.mayEndLate(identity, isCollected: false) {
            witness.violated(
                .publishedIsStored,
                "timeline \(id): stored is \(stored), the last message is \(last.map { "\($0)" } ?? "none")")
        }
    }
}
