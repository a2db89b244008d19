// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// A list that a worker has leased.
struct HeldList {
    let id: Int
    let row: WorkList
    /// Whether the list was leased before, so that its rows may be stored but unpublished.
    let wasLeased: Bool
}

/// Stage of a timeline in the pipeline.
enum Stage {
    /// An earlier claim of the same process is working on the row; it is read again afterwards.
    case waiting
    case read
    /// The list does not apply to the row, or the row is finished.
    case done
    case fetching(ledger: BudgetLedger)
    case fetched(Answer)
    /// The row changed after it was read: it is read again, and the answer is stored or discarded.
    case mismatched(Answer)
    case rescheduled(LookEnd)
    /// No widget shows the timeline: a tombstone is due, with a token that is written to the row first.
    case orphaned(isCollection: Bool)
    /// A message is due. A collection follows the tombstone that begins it.
    case publishing(Message, isCollection: Bool)
    case sending(Message, isCollection: Bool)
    case sent(Int, Message, isCollection: Bool)
    /// The tombstone was acknowledged.
    case buried
}

struct Answer {
    let value: UInt8
    let policy: ReloadPolicy
    let ledger: BudgetLedger
    /// Time of the witness's clock when the fetch began.
    let fetchedAt: Int
}

/// End of a look that stores nothing.
enum LookEnd {
    case nothing
    case wait(until: Timestamp)
    case sleep
    case fail(retryAt: Timestamp)
}

/// Content of a message, without its key.
struct Message: Hashable {
    let revision: Int
    /// Value; nil for a tombstone.
    let value: UInt8?
}

/// A timeline of a claim.
struct JobRow {
    let id: Int
    /// The row as read; nil if it does not exist.
    var row: TimelineRow?
    var kind = KindRow()
    /// Revision of the row's next store.
    var token: Int
    var stage: Stage
    /// Index of the list through which the row is examined.
    var list = 0
    /// Time of the witness's clock when the row's fetch began.
    var fetchedAt = 0
    /// Revision of the tombstone.
    var buriedAs: Int?
}

/// A claim in a worker's pipeline.
struct Job {
    /// Lease token of the lists, and revision of the contents to store.
    let lease: Int
    let leaseEnds: Timestamp
    var lists: [HeldList]
    var rows: [JobRow]
    /// Whether it was handed over and its worker still has to register.
    var isUnregistered: Bool
    /// Number in the order of the worker's claims.
    var number = 0
    /// Last messages of this holder, by identity, with the IDs of their rows.
    var published: [(identity: Int, id: Int, message: Message)] = []
    /// Rows whose messages were sent; their result is known after the acknowledgement.
    var sentRows: [Int] = []
    var hasStored = false
    /// Whether the job ends early and returns its lists.
    var isGivingBack = false
    /// The statement that has begun.
    var open: OpenStatement?
    /// Indices of rows that a collection has locked, and IDs of those that it could not lock.
    var collecting: [Int] = []
    var returning: [Int] = []

    init(
        lease: Int, leaseEnds: Timestamp, lists: [HeldList], reading kinds: [KindRow],
        rows: [(id: Int, row: TimelineRow)], isHandedOver: Bool
    ) {
        self.lease = lease
        self.leaseEnds = leaseEnds
        self.lists = lists
        isUnregistered = isHandedOver
        let ids = Set(lists.flatMap(\.row.timelines)).sorted()
        self.rows = ids.map { id in
            let row = rows.first { $0.id == id }?.row
            var item = JobRow(id: id, row: row, token: lease, stage: .read)
            if let row { item.kind = kinds[row.kind] }
            return item
        }
    }

    var isDone: Bool {
        rows.allSatisfy { if case .done = $0.stage { true } else { false } }
    }

    func lastPublished(_ identity: Int) -> Message? { published.first { $0.identity == identity }?.message }

    mutating func notePublished(_ identity: Int, _ id: Int, _ message: Message) {
        published.removeAll { $0.identity == identity }
        published.append((identity, id, message))
    }
}

/// A statement of a job between its snapshot and its end.
struct OpenStatement {
    enum Work {
        case store, reschedule, bury, lockOrphans, collect
    }

    var work: Work
    /// Indices of the job's rows in the statement.
    let rows: [Int]
    var transaction: Transaction
}

extension Job: CustomStringConvertible {
    /// The job's lists and the stages of its timelines.
    var description: String {
        let lists = lists.map { "\($0.id)\($0.wasLeased ? " again" : "")" }.joined(separator: ", ")
        let rows = rows.map { row in "\(row.id) \(row.stage)" }.joined(separator: "; ")
        let statement = open.map { ", in \($0.work)" } ?? ""
        return "lists \(lists): \(rows)\(statement)\(isGivingBack ? ", giving back" : "")"
    }
}

extension Stage: CustomStringConvertible {
    var description: String {
        switch self {
        case .waiting: "waiting"
        case .read: "read"
        case .done: "done"
        case .fetching: "fetching"
        case .fetched: "fetched"
        case .mismatched: "mismatched"
        case .rescheduled(let end): "to reschedule (\(end))"
        case .orphaned: "to bury"
        case .publishing(let message, _): "to publish \(message)"
        case .sending(let message, _): "sending \(message)"
        case .sent(_, let message, _): "sent \(message)"
        case .buried: "buried"
        }
    }
}

extension Message: CustomStringConvertible {
    var description: String { "\(value.map { "value \($0)" } ?? "tombstone") of revision \(revision)" }
}
