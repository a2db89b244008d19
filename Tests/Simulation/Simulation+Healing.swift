import WidgetModel

// Nothing goes wrong any more: all is done that is to be done, and the invariants are looked at.

extension Simulation {
    /// Rounds in which all must be quiet. A round is everything that can be done at one time.
    private static let rounds = 200

    mutating func heal() {
        isHealed = true
        for kind in store.kinds.indices { store.kinds[kind].isPaused = false }
        for partition in owners.indices {
            let owner = owners[partition] ?? random.below(SimulatedWorld.ingests)
            if owners[partition] == nil { ingests[owner].assign(partition) }
            owners[partition] = owner
            for process in ingests.indices where process != owner { ingests[process].revoke(partition) }
        }
        var rounds = 0
        while rounds < Self.rounds {
            rounds += 1
            let isBusy = doAll()
            if store.witness.violation != nil { return }
            if isBusy { continue }
            guard let next = nextDue() else { return }
            now = max(now, next)
        }
        store.witness.violated(.liveness, "not quiet after \(rounds) rounds, at \(now)")
    }

    /// Everything that can be done now; false when there was nothing.
    private mutating func doAll() -> Bool {
        var isBusy = false
        while !output.network.isEmpty {
            output.land(at: random.below(output.network.count), mutation: mutation, &store.witness)
            isBusy = true
        }
        for worker in workers.indices {
            workers[worker].claiming = nil
            workers[worker].sweeping = nil
            while !workers[worker].jobs.isEmpty {
                _ = finish(worker, random.below(workers[worker].jobs.count), how: 1 + random.below(100))
                isBusy = true
                if store.witness.violation != nil { return false }
            }
        }
        for process in ingests.indices {
            ingests[process].take(&store)
            ingests[process].poll(log, count: 100)
            if !ingests[process].batch.isEmpty {
                ingests[process].apply(&store, fault: .none, at: now)
                isBusy = true
            }
        }
        for kind in store.kinds.indices where store.sweep(kind, to: store.scope(of: kind), limit: 100, at: now) > 0 {
            isBusy = true
        }
        while store.sweepRecorded(random.below(8), limit: 3, at: now) { isBusy = true }
        let worker = random.below(workers.count)
        endClaim(worker, from: random.below(SimulatedWorld.timelines), limit: SimulatedWorld.timelines)
        return isBusy || !workers[worker].jobs.isEmpty
    }

    private func nextDue() -> Timestamp? {
        var next = Timestamp.distantFuture
        for case let row? in store.timelines { next = min(next, row.state.dueAt) }
        return next == .distantFuture ? nil : next
    }

    // MARK: What must hold in the end

    mutating func checkQuiet() {
        var witness = store.witness
        for partition in log.indices {
            if witness.applied[partition] != log[partition].count {
                witness.violated(
                    .exactlyOnce,
                    "partition \(partition): \(witness.applied[partition]) of \(log[partition].count) events were applied"
                )
            }
        }
        checkGenerations(&witness)
        checkWidgets(&witness)
        for timeline in store.timelines.indices { check(timeline, &witness) }
        store.witness = witness
    }

    private func checkGenerations(_ witness: inout Witness) {
        var kinds: [Int64] = Array(repeating: 0, count: SimulatedWorld.kinds)
        var app: Int64 = 0
        for event in log.joined() {
            switch event {
            case .reloadKind(let kind, _): kinds[kind] += 1
            case .reloadApp: app += 1
            default: break
            }
        }
        let found = store.kinds.map(\.generation.current)
        if found != kinds || store.app.current != app {
            witness.violated(.exactlyOnce, "generations are \(found) and \(store.app.current), not \(kinds) and \(app)")
        }
    }

    private func checkWidgets(_ witness: inout Witness) {
        var newest: [(time: Int, timeline: Int?)?] = Array(repeating: nil, count: SimulatedWorld.widgets)
        for event in log.joined() {
            switch event {
            case .place(let widget, let timeline, let time) where time >= newest[widget]?.time ?? .min:
                newest[widget] = (time, timeline)
            case .remove(let widget, let time) where newest[widget] != nil && time >= newest[widget]?.time ?? .min:
                newest[widget] = (time, nil)
            default: break
            }
        }
        for widget in newest.indices {
            let found = store.widgets[widget]?.timeline
            let expected = newest[widget]?.timeline
            if found != expected {
                witness.violated(
                    .exactlyOnce,
                    "widget \(widget) shows \(found.map(String.init) ?? "nothing"), not \(expected.map(String.init) ?? "nothing")"
                )
            }
            if let found {
                if store.timelines[found] == nil {
                    witness.violated(.noLostReload, "the timeline of widget \(widget) was collected")
                }
            }
        }
    }

    private func check(_ timeline: Int, _ witness: inout Witness) {
        let (shown, last) = (output.shown[timeline], output.last[timeline])
        guard let row = store.timelines[timeline] else {
            if shown?.value != nil {
                witness.violated(.publishedIsStored, "timeline \(timeline) was collected and is still shown")
            }
            if last?.value != nil, !witness.mayEndLate(timeline) {
                witness.violated(
                    .publishedIsStored, "timeline \(timeline) was collected, and the last message says otherwise")
            }
            return
        }
        if !store.isShown(timeline) {
            witness.violated(.liveness, "timeline \(timeline) is shown by nothing, and is there")
        }
        witness.expectServed(timeline)
        let value = row.content?.value
        if value == nil || shown?.value != value {
            witness.violated(
                .publishedIsStored,
                "timeline \(timeline): stored is \(row.content as Any), the highest revision published \(shown as Any)")
        }
        if last?.value != value, !witness.mayEndLate(timeline) {
            witness.violated(
                .publishedIsStored,
                "timeline \(timeline): stored is \(row.content as Any), the last message is \(last as Any)")
        }
        if !row.state.isDormant, row.state.policyAt != .distantFuture {
            witness.violated(
                .noLostReload,
                "timeline \(timeline): its policy wants it at \(row.state.policyAt), and nothing makes it due")
        }
    }
}
