// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// A model of the parts of PostgreSQL that the protocol uses: READ COMMITTED with a snapshot per statement, row locks
/// that are held until the transaction ends, and a sequence that no transaction rolls back.
struct Database {
    enum Key: Hashable {
        case timeline(Int)
        case work(Int)
        case widget(Int)
        case kind(Int)
        case sweep(Int)
        case position(Int)
        /// Entry of an identity in the unique index.
        case identity(Int)
    }

    /// Modes of PostgreSQL's row locks, weakest first.
    enum LockMode: Int {
        case keyShare
        case share
        case noKeyUpdate
        case update

        func conflicts(with other: LockMode) -> Bool {
            switch (min(rawValue, other.rawValue), max(rawValue, other.rawValue)) {
            case (0, let strongest): strongest == LockMode.update.rawValue
            case (1, let strongest): strongest > LockMode.share.rawValue
            default: true
            }
        }
    }

    private struct Lock {
        let key: Key
        let mode: LockMode
        let transaction: Int
    }

    let mutation: Mutation?
    /// Committed tables.
    private(set) var tables = Tables()
    var witness: Witness
    private var locks: [Lock] = []
    private var transactions = 0
    private var tokens = 0
    private var timelines = 0
    private var lists = 0

    init(_ world: SimulatedWorld, mutation: Mutation?, keepsJournal: Bool) {
        self.mutation = mutation
        witness = Witness(world, keepsJournal: keepsJournal)
    }

    func isOn(_ mutation: Mutation) -> Bool { self.mutation == mutation }

    // MARK: Sequences

    mutating func nextToken() -> Int {
        tokens += 1
        return tokens
    }

    mutating func nextTimeline() -> Int {
        timelines += 1
        return timelines
    }

    // MARK: Transactions

    /// Begins a transaction with this time as its `now()`.
    mutating func begin(at now: Timestamp) -> Transaction {
        transactions += 1
        return Transaction(id: transactions, now: now, snapshot: tables)
    }

    /// Begins a statement, whose snapshot has the committed rows and those that its transaction wrote.
    func beginStatement(_ transaction: inout Transaction) {
        transaction.snapshot = newest(transaction)
    }

    /// Returns the newest versions of all rows. A statement may use those that it has locked.
    func newest(_ transaction: Transaction) -> Tables {
        var tables = tables
        for write in transaction.writes { tables.apply(write) }
        return tables
    }

    /// Locks a row unless another transaction holds a conflicting lock.
    mutating func lock(_ key: Key, _ mode: LockMode, _ transaction: Transaction) -> Bool {
        for lock in locks where lock.key == key && lock.transaction != transaction.id {
            if lock.mode.conflicts(with: mode) { return false }
        }
        let isHeld = locks.contains {
            $0.key == key && $0.transaction == transaction.id && $0.mode.rawValue >= mode.rawValue
        }
        if !isHeld { locks.append(Lock(key: key, mode: mode, transaction: transaction.id)) }
        return true
    }

    mutating func unlock(_ key: Key, _ transaction: Transaction) {
        locks.removeAll { $0.key == key && $0.transaction == transaction.id }
    }

    mutating func commit(_ transaction: Transaction, at now: Timestamp) {
        let before = tables
        for write in transaction.writes {
            tables.apply(write)
            witness.note("  commit \(transaction.id): \(write)")
        }
        rollBack(transaction)
        for case .timeline(let id, let row) in transaction.writes {
            witness.wrote(id, from: before.timelines[id], to: row, at: now)
        }
        witness.checkAppointments(tables, at: now)
    }

    /// Releases a transaction's locks.
    mutating func rollBack(_ transaction: Transaction) {
        locks.removeAll { $0.transaction == transaction.id }
    }

    // MARK: Lists

    /// Appends a list for each kind, lane and time of rows with new appointments.
    ///
    /// - lease: Token and end of a lease that the lists of urgent due rows get at once.
    /// - Returns: IDs of the leased lists.
    mutating func appendLists(
        of rows: [(id: Int, row: TimelineRow)], lease: (token: Int, end: Timestamp)? = nil,
        _ transaction: inout Transaction
    ) -> [Int] {
        var leased: [Int] = []
        var groups: [(row: TimelineRow, ids: [Int])] = []
        for (id, row) in rows {
            let place = groups.firstIndex {
                $0.row.kind == row.kind && $0.row.listedLane == row.listedLane && $0.row.listedAt == row.listedAt
            }
            if let place { groups[place].ids.append(id) } else { groups.append((row, [id])) }
        }
        for (row, ids) in groups {
            var list = WorkList(
                kind: row.kind, lane: row.listedLane, dueAt: row.listedAt, readyAt: row.listedAt, timelines: ids)
            let isHanded = lease != nil && row.listedAt <= transaction.now && row.listedLane <= .push
            if isHanded, let lease {
                list.lease = lease.token
                list.readyAt = lease.end
                list.leases = 1
            }
            let id = append(list, &transaction)
            if isHanded { leased.append(id) }
        }
        return leased
    }

    @discardableResult
    mutating func append(_ list: WorkList, _ transaction: inout Transaction) -> Int {
        lists += 1
        transaction.writes.append(.work(lists, list))
        return lists
    }

    // MARK: Workers

    mutating func register(_ worker: Int, at now: Timestamp) {
        tables.workers[worker] = now
    }

    mutating func forget(_ worker: Int) {
        tables.workers[worker] = nil
    }

    func isAlone(_ worker: Int) -> Bool { tables.workers.entries.allSatisfy { $0.id == worker } }
}

/// A transaction: the snapshot of its statement, and its writes.
struct Transaction {
    let id: Int
    let now: Timestamp
    var snapshot: Tables
    var writes: [Write] = []

    init(id: Int, now: Timestamp, snapshot: Tables) {
        self.id = id
        self.now = now
        self.snapshot = snapshot
    }
}

/// Result of an attempt to run a statement.
enum Progress {
    /// The statement waits for another transaction's lock.
    case blocked
    case done
}

/// Fault of a COMMIT, a message or an acknowledgement.
package enum Fault: UInt8, Hashable, Sendable, CaseIterable {
    case none
    /// The operation never arrives.
    case lostBefore
    /// The operation takes effect, but its answer is lost.
    case lostAfter
}
