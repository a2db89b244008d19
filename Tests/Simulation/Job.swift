import WidgetModel

/// A list that a worker has leased.
struct HeldList {
    let id: Int
    let row: WorkList
    /// Leased before this lease: its rows may be stored and not published.
    let wasLeased: Bool
    /// Its rows are compared, once all of them are done.
    var isCompared = false
}

/// The way of a timeline through the pipeline.
enum Stage {
    /// It is read in the same process by an earlier claim: it waits, and is read again.
    case waiting
    case read
    /// Its list does not stand for it, or it was dealt with.
    case done
    case fetching(ledger: BudgetLedger)
    case fetched(Answer)
    /// The row was not as it was read: it is read again, and the answer is stored or discarded.
    case mismatched(Answer)
    case settled(Settlement)
    /// No widget shows it: a tombstone is to be published, with a token that the row carries before.
    case orphaned(isCollection: Bool)
    /// A message is to be sent. A tombstone that begins a collection is followed by it.
    case publishing(Message, isCollection: Bool)
    case sending(Message, isCollection: Bool)
    case sent(Int, Message, isCollection: Bool)
    /// Its tombstone was acknowledged.
    case buried
}

struct Answer {
    let value: UInt8
    let policy: ReloadPolicy
    let ledger: BudgetLedger
    /// The witness's clock when the fetch began.
    let fetchedAt: Int
}

/// The end of a look that stores nothing.
enum Settlement {
    case nothing
    case wait(until: Timestamp)
    case sleep
    case fail(retryAt: Timestamp)
}

/// The content of a message, without its key.
struct Message: Hashable {
    let revision: Int
    /// nil: a tombstone.
    let value: UInt8?
}

/// A timeline of a claim.
struct JobRow {
    let id: Int
    /// The row as it was read; nil: there is none.
    var row: TimelineRow?
    var kind = KindRow()
    /// Revision of what it will store.
    var token: Int
    var stage: Stage
    /// The list through which it is looked at.
    var list = 0
    /// Whether the read state is the one that a fetch began after.
    var fetchedAt = 0
    /// Revision of its tombstone.
    var buriedAs: Int?
}

/// A claim on its way through a worker's pipeline.
struct Job {
    /// Lease token of its lists.
    let lease: Int
    let leaseEnds: Timestamp
    var lists: [HeldList]
    var rows: [JobRow]
    /// The hand-over takes its revision token after COMMIT.
    var needsToken: Bool
    /// Number in the worker's order of claims.
    var number = 0
    /// Messages that this holder published last, by identity, and ids of their rows.
    var published: [(identity: Int, id: Int, message: Message)] = []
    /// Messages that were sent; their fate is known once they are acknowledged.
    var sentRows: [Int] = []
    var hasStored = false
    /// It ends without having done all: its lists go back.
    var isGivingBack = false
    /// A statement that has begun.
    var open: OpenStatement?
    /// Places of rows that a collection has locked, and ids of those that it could not lock.
    var collecting: [Int] = []
    var returning: [Int] = []

    /// - Parameter token: revision token of a claim; nil: it is taken after COMMIT.
    init(
        lease: Int, leaseEnds: Timestamp, lists: [HeldList], reading kinds: [KindRow],
        rows: [(id: Int, row: TimelineRow)], token: Int?
    ) {
        self.lease = lease
        self.leaseEnds = leaseEnds
        self.lists = lists
        needsToken = token == nil
        let ids = Set(lists.flatMap(\.row.timelines)).sorted()
        self.rows = ids.map { id in
            let row = rows.first { $0.id == id }?.row
            var item = JobRow(id: id, row: row, token: token ?? lease, stage: .read)
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
        case store, settle, bury, lockOrphans, collect
    }

    var work: Work
    /// Positions of the job's rows that it is about.
    let rows: [Int]
    var transaction: Transaction
}

extension Job: CustomStringConvertible {
    /// Its lists, and where its timelines are.
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
        case .settled(let settlement): "to settle (\(settlement))"
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
