// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// A process with the ingest role. A crash loses its state; a zombie has not yet learned that its partitions belong to
/// others.
struct SimulatedIngest {
    /// Partitions that are assigned but not taken yet.
    var pending: [Int] = []
    /// Positions in the partitions that the process has taken.
    private(set) var positions: [Position?] = Array(repeating: nil, count: SimulatedWorld.partitions)
    /// Offset of the consumer's next message, by partition.
    private var reading = Array(repeating: 0, count: SimulatedWorld.partitions)
    /// Events to apply next.
    private(set) var batch: [ReadEvent] = []
    private(set) var transaction: IngestTransaction?

    mutating func assign(_ partition: Int) {
        if !pending.contains(partition) { pending.append(partition) }
    }

    mutating func revoke(_ partition: Int) {
        pending.removeAll { $0 == partition }
        positions[partition] = nil
    }

    mutating func crash(_ database: inout Database) {
        if let transaction { database.rollBack(transaction.transaction) }
        self = SimulatedIngest()
    }

    /// Takes pending partitions with new epochs, and continues reading at the stored positions.
    mutating func take(_ database: inout Database, at now: Timestamp) {
        pending.removeAll { partition in
            var transaction = database.begin(at: now)
            guard database.lock(.position(partition), .noKeyUpdate, transaction) else { return false }
            var position = database.tables.positions[partition]
            position.epoch += 1
            transaction.writes.append(.position(partition, position))
            database.commit(transaction, at: now)
            positions[partition] = position
            reading[partition] = position.next ?? 0
            return true
        }
    }

    /// Reads a batch unless one is pending.
    mutating func poll(_ log: [[SimulatedEvent]], count: Int) {
        guard batch.isEmpty else { return }
        for partition in positions.indices {
            guard let position = positions[partition] else { continue }
            let end = max(min(log[partition].count, reading[partition] + count), reading[partition])
            for offset in reading[partition]..<end {
                batch.append(
                    ReadEvent(
                        partition: partition, offset: offset, event: log[partition][offset], epoch: position.epoch))
            }
            reading[partition] = end
        }
    }

    /// Runs one step of the batch's transaction.
    ///
    /// - Parameters:
    ///   - hasRoom: Whether the process's workers accept a hand-over.
    /// - Returns: The handed-over job, once the COMMIT has succeeded.
    mutating func apply(_ database: inout Database, hasRoom: Bool, fault: Fault, at now: Timestamp) -> Job? {
        guard var current = transaction ?? begin(&database, hasRoom: hasRoom, at: now) else { return nil }
        transaction = nil
        switch current.step(&database, fault: fault, at: now) {
        case .going: transaction = current
        case .again: database.rollBack(current.transaction)
        case .fenced: resolveFence(current.advances, &database, at: now)
        case .committed:
            // A COMMIT of unknown outcome is repeated and then finds its own positions.
            guard fault == .none else { return nil }
            applied(current.advances)
            batch = []
            return current.handed
        }
        return nil
    }

    private mutating func begin(_ database: inout Database, hasRoom: Bool, at now: Timestamp) -> IngestTransaction? {
        batch.removeAll { item in
            guard let position = positions[item.partition], position.epoch == item.epoch else { return true }
            return item.offset < position.next ?? 0
        }
        guard !batch.isEmpty else { return nil }
        return IngestTransaction(batch, advancing: advances(), hasRoom: hasRoom, database.begin(at: now))
    }

    private func advances() -> [Advance] {
        var next: [Int?] = Array(repeating: nil, count: SimulatedWorld.partitions)
        for item in batch { next[item.partition] = item.offset + 1 }
        return next.indices.compactMap { partition in
            guard let next = next[partition], let position = positions[partition] else { return nil }
            return Advance(partition: partition, epoch: position.epoch, expected: position.next, next: next)
        }
    }

    private mutating func applied(_ advances: [Advance]) {
        for advance in advances where positions[advance.partition]?.epoch == advance.epoch {
            positions[advance.partition]?.next = advance.next
        }
    }

    /// Uses the stored positions to determine whether a COMMIT of unknown outcome succeeded.
    private mutating func resolveFence(_ advances: [Advance], _ database: inout Database, at now: Timestamp) {
        let stored = database.tables.positions
        if advances.allSatisfy({ stored[$0.partition] == Position(epoch: $0.epoch, next: $0.next) }) {
            applied(advances)
            batch = []
            return
        }
        for advance in advances {
            // Unless the partition was revoked meanwhile.
            guard positions[advance.partition] != nil,
                stored[advance.partition] != Position(epoch: advance.epoch, next: advance.expected)
            else { continue }
            positions[advance.partition] = nil
            assign(advance.partition)
        }
        take(&database, at: now)
    }
}
