import WidgetModel

/// A process in the ingest role. What it holds is gone when it crashes; a zombie is one that nobody has told yet that
/// its partitions are another's.
struct SimulatedIngest {
    /// Assigned, but not taken yet.
    var pending: [Int] = []
    /// Where it stands in the partitions that it has taken (`PartitionPositions`).
    var positions: [SimulatedStore.Position?] = Array(repeating: nil, count: SimulatedWorld.partitions)
    /// By partition, the offset of the next message that its consumer reads.
    var reading = Array(repeating: 0, count: SimulatedWorld.partitions)
    /// What it is about to apply.
    var batch: [ReadEvent] = []

    mutating func assign(_ partition: Int) {
        if !pending.contains(partition) { pending.append(partition) }
    }

    mutating func revoke(_ partition: Int) {
        pending.removeAll { $0 == partition }
        positions[partition] = nil
    }

    /// `IngestService.take`: a new epoch, and reading goes on from what is stored.
    mutating func take(_ store: inout SimulatedStore) {
        for partition in pending {
            let position = store.take(partition)
            positions[partition] = position
            reading[partition] = position.next ?? 0
        }
        pending = []
    }

    /// Reads a batch, unless it has one.
    mutating func poll(_ log: [[SimulatedEvent]], count: Int) {
        guard batch.isEmpty else { return }
        for partition in positions.indices {
            guard let position = positions[partition] else { continue }
            let end = min(log[partition].count, reading[partition] + count)
            for offset in reading[partition]..<max(end, reading[partition]) {
                batch.append(
                    ReadEvent(
                        partition: partition, offset: offset, event: log[partition][offset], epoch: position.epoch))
            }
            reading[partition] = max(end, reading[partition])
        }
    }

    /// `IngestService.apply`: one attempt, and what its failure calls for.
    mutating func apply(_ store: inout SimulatedStore, fault: Fault, at now: Timestamp) {
        batch.removeAll { item in
            guard let position = positions[item.partition], position.epoch == item.epoch else { return true }
            return item.offset < position.next ?? 0
        }
        guard !batch.isEmpty else { return }
        let advances = advances()
        switch fault {
        case .lostBefore: return
        case .lostAfter:
            _ = store.apply(batch, advancing: advances, at: now)
        case .none:
            if store.apply(batch, advancing: advances, at: now) {
                applied(advances)
                batch = []
            } else {
                resolveFence(advances, &store)
            }
        }
    }

    private func advances() -> [SimulatedStore.Advance] {
        var next: [Int?] = Array(repeating: nil, count: SimulatedWorld.partitions)
        for item in batch { next[item.partition] = item.offset + 1 }
        var advances: [SimulatedStore.Advance] = []
        for partition in next.indices {
            if let next = next[partition], let position = positions[partition] {
                advances.append(
                    SimulatedStore.Advance(
                        partition: partition, epoch: position.epoch, expected: position.next, next: next))
            }
        }
        return advances
    }

    private mutating func applied(_ advances: [SimulatedStore.Advance]) {
        for advance in advances { positions[advance.partition]?.next = advance.next }
    }

    /// `IngestService.resolveFence`: the stored positions tell whether a COMMIT of unknown outcome went through.
    private mutating func resolveFence(_ advances: [SimulatedStore.Advance], _ store: inout SimulatedStore) {
        let isApplied = advances.allSatisfy {
            store.positions[$0.partition] == SimulatedStore.Position(epoch: $0.epoch, next: $0.next)
        }
        if isApplied { return applied(advances) }
        for advance in advances {
            let expected = SimulatedStore.Position(epoch: advance.epoch, next: advance.expected)
            guard store.positions[advance.partition] != expected else { continue }
            positions[advance.partition] = nil
            assign(advance.partition)
        }
        take(&store)
    }
}

/// What happens to a statement, a transaction, a request, or an acknowledgement.
package enum Fault: UInt8, Hashable, Sendable, CaseIterable {
    case none
    /// It never arrives.
    case lostBefore
    /// It has its effect, and nobody is told.
    case lostAfter
}
