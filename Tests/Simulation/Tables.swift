// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// Rows in the order of their IDs.
struct Table<Row> {
    private(set) var entries: [(id: Int, row: Row)] = []

    subscript(id: Int) -> Row? {
        get {
            let place = place(of: id)
            return place < entries.count && entries[place].id == id ? entries[place].row : nil
        }
        set {
            let place = place(of: id)
            let exists = place < entries.count && entries[place].id == id
            switch (newValue, exists) {
            case (let row?, true): entries[place].row = row
            case (let row?, false): entries.insert((id, row), at: place)
            case (nil, true): entries.remove(at: place)
            case (nil, false): break
            }
        }
    }

    /// Returns the index of the first entry with at least this ID.
    private func place(of id: Int) -> Int {
        var (low, high) = (0, entries.count)
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// A row of `timeline`.
@dynamicMemberLookup
struct TimelineRow {
    /// Number of the identity, which outlives the row.
    let identity: Int
    let kind: Int
    var record: ReloadRecord
    var revision = 0
    var contentRevision = 0
    var content: UInt8?
    /// Hash of the content; nil makes any next content count as changed.
    var hash: UInt8?
    var views = 0

    subscript<Value>(dynamicMember path: WritableKeyPath<ReloadRecord, Value>) -> Value {
        get { record[keyPath: path] }
        set { record[keyPath: path] = newValue }
    }
}

/// A row of `work`.
struct WorkList {
    let kind: Int
    let lane: ReloadLane
    let dueAt: Timestamp
    var readyAt: Timestamp
    var lease: Int?
    var leases = 0
    var generation: Int64?
    let timelines: [Int]
}

struct WidgetRow {
    /// Timeline; nil for a removed widget.
    var timeline: Int?
    var changedAt: Int
}

struct KindRow {
    var generations = KindGenerations()
    var isPaused = false
}

/// The walk of a reload of everyone.
struct SweepRow {
    /// Generation at which the walk was recorded; its ID.
    let first: Int64
    var generation: Int64
    var cursor = 0
    var until = 0
    var isWrapped = false

    /// Whether the walk is still ahead of a row.
    func isAhead(of id: Int) -> Bool {
        isWrapped ? id > cursor && id <= until : id > cursor || id <= until
    }
}

struct Position: Hashable {
    var epoch = 0
    var next: Int?
}

/// A version of the database: committed, a snapshot, or a transaction's view.
struct Tables {
    var timelines = Table<TimelineRow>()
    var work = Table<WorkList>()
    var widgets: [WidgetRow?] = Array(repeating: nil, count: SimulatedWorld.widgets)
    var kinds = Array(repeating: KindRow(), count: SimulatedWorld.kinds)
    var sweeps: [SweepRow?] = Array(repeating: nil, count: SimulatedWorld.kinds)
    var positions = Array(repeating: Position(), count: SimulatedWorld.partitions)
    /// Registered worker processes.
    var workers = Table<Timestamp>()

    mutating func apply(_ write: Write) {
        switch write {
        case .timeline(let id, let row): timelines[id] = row
        case .work(let id, let row): work[id] = row
        case .widget(let id, let row): widgets[id] = row
        case .kind(let id, let row): kinds[id] = row
        case .sweep(let id, let row): sweeps[id] = row
        case .position(let id, let row): positions[id] = row
        }
    }

    func timeline(of identity: Int) -> (id: Int, row: TimelineRow)? {
        timelines.entries.first { $0.row.identity == identity }
    }

    func isShown(_ timeline: Int) -> Bool { widgets.contains { $0?.timeline == timeline } }
}

/// Sets a new version of a row; nil deletes the row.
enum Write {
    case timeline(Int, TimelineRow?)
    case work(Int, WorkList?)
    case widget(Int, WidgetRow)
    case kind(Int, KindRow)
    case sweep(Int, SweepRow?)
    case position(Int, Position)
}

extension Write: CustomStringConvertible {
    var description: String {
        switch self {
        case .timeline(let id, nil): "timeline \(id) is deleted"
        case .timeline(let id, let row?):
            "timeline \(id) of identity \(row.identity): requested \(row.state.requested), rendered "
                + "\(row.state.rendered), generation \(row.state.generation), revision \(row.revision), content "
                + "\(row.contentRevision), listed at \(row.listedAt)\(row.state.isOrphaned ? ", orphaned" : "")"
                + (row.state.isAsleep ? ", asleep" : "")
        case .work(let id, nil): "list \(id) is deleted"
        case .work(let id, let list?):
            "list \(id) of \(list.timelines): \(list.lane), due \(list.dueAt), ready \(list.readyAt)"
                + (list.lease.map { ", lease \($0)" } ?? "") + (list.generation.map { ", generation \($0)" } ?? "")
        case .widget(let id, let row): "widget \(id) shows timeline \(row.timeline.map { "\($0)" } ?? "none")"
        case .kind(let id, let row): "kind \(id): \(row.generations)"
        case .sweep(let id, let row): "sweep of kind \(id): \(row.map { "\($0)" } ?? "ended")"
        case .position(let id, let row): "position \(id): \(row.next ?? 0)"
        }
    }
}

extension TimelineRow {
    var facts: ReloadState {
        ReloadState(
            need: .policy, renderedAt: self.renderedAt, requestedAt: self.requestedAt, ledger: self.ledger,
            views: ViewStatistics(
                viewsADay: Double(views), lastActive: max(self.viewedAt ?? self.placedAt, self.placedAt),
                lastPlaced: self.placedAt))
    }
}
