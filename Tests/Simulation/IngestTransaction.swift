// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// The transaction of a batch: a sequence of statements, each with a snapshot, followed by locks and writes.
struct IngestTransaction {
    private enum Statement: Int {
        case bump, read, insert, lock, write, mark, orphan, positions
    }

    enum Outcome {
        case going
        case committed
        /// Another process has moved a position.
        case fenced
        /// A timeline was collected meanwhile: the transaction has to be retried.
        case again
    }

    let advances: [Advance]
    private let batch: FoldedBatch
    private let log: [ReadEvent]
    private(set) var transaction: Transaction
    private var statement = Statement.bump
    private var isBegun = false
    /// Changes of widgets that are no older than the stored ones, with the timelines that the widgets showed before.
    private var changes: [(widget: Int, identity: Int?, changedAt: Int, old: Int?)] = []
    /// Rows by identity that the widgets now show, and those of them to revive.
    private var placed: [(identity: Int, id: Int)] = []
    private var revived: [Int] = []
    private var departed: [Int] = []
    /// Whether the process's workers have room, and the job that the mark has handed over to them.
    private let hasRoom: Bool
    private var token: Int?
    private(set) var handed: Job?
    /// Widgets in the mark's snapshot.
    private var shownToMark: [WidgetRow?] = []
    /// Requests by row, for the witness.
    private var marked: [(id: Int, events: Int64)] = []

    init(_ events: [ReadEvent], advancing advances: [Advance], hasRoom: Bool, _ transaction: Transaction) {
        log = events
        batch = FoldedBatch(events.map(\.event))
        self.advances = advances
        // A batch that changes widgets is not handed over.
        self.hasRoom = hasRoom && batch.widgets.isEmpty
        self.transaction = transaction
        if batch.bumps.isEmpty { statement = batch.widgets.isEmpty ? .mark : .read }
    }

    /// Runs a step: the beginning or end of a statement; has no effect while the statement waits for a lock.
    mutating func step(_ database: inout Database, fault: Fault, at now: Timestamp) -> Outcome {
        guard isBegun else {
            database.beginStatement(&transaction)
            if statement == .mark {
                shownToMark = transaction.snapshot.widgets
                if hasRoom, database.isOn(.tokenBeforeLocks) { token = database.nextToken() }
            }
            isBegun = true
            return .going
        }
        let progress: Progress
        switch statement {
        case .read: progress = read(&database)
        case .insert: progress = insert(&database)
        case .lock:
            progress = lock(&database)
            if progress == .done, placed.count < identities.count { return .again }
        case .write: progress = write()
        case .mark: progress = mark(&database)
        case .orphan: progress = orphan(&database)
        case .bump: progress = bump(&database)
        case .positions: return finish(&database, fault: fault, at: now)
        }
        if progress == .done {
            isBegun = false
            while let next = Statement(rawValue: statement.rawValue + 1) {
                statement = next
                if isNeeded(next) { break }
            }
        }
        return .going
    }

    private func isNeeded(_ statement: Statement) -> Bool {
        switch statement {
        case .bump: !batch.bumps.isEmpty
        case .read: !batch.widgets.isEmpty
        case .insert, .lock: !identities.isEmpty
        case .write: !changes.isEmpty
        case .mark: !(batch.requests.isEmpty && batch.views.isEmpty && revived.isEmpty && departed.isEmpty)
        case .orphan: !departed.isEmpty
        case .positions: true
        }
    }

    // MARK: Placing

    private var identities: [Int] { Set(changes.compactMap(\.identity)).sorted() }

    /// Locks and reads the batch's widgets and folds the batch into them.
    private mutating func read(_ database: inout Database) -> Progress {
        for change in batch.widgets where !database.lock(.widget(change.widget), .noKeyUpdate, transaction) {
            return .blocked
        }
        let newest = database.newest(transaction)
        for change in batch.widgets {
            let row = newest.widgets[change.widget]
            let isOlder = (row?.changedAt ?? .min) > change.changedAt && !database.isOn(.lifecycleIgnoresTime)
            if isOlder { continue }
            changes.append((change.widget, change.identity, change.changedAt, row?.timeline))
        }
        return .done
    }

    private mutating func insert(_ database: inout Database) -> Progress {
        let missing = identities.filter { transaction.snapshot.timeline(of: $0) == nil }
        for identity in missing where !database.lock(.identity(identity), .update, transaction) { return .blocked }
        var inserted: [(id: Int, row: TimelineRow)] = []
        for identity in missing {
            // ON CONFLICT DO NOTHING.
            guard database.newest(transaction).timeline(of: identity) == nil else {
                database.unlock(.identity(identity), transaction)
                continue
            }
            let kind = SimulatedWorld.kind(of: identity)
            let generations = transaction.snapshot.kinds[kind].generations
            let record = ReloadRecord(placedAt: transaction.now, generations, reason: .placed)
            let row = TimelineRow(identity: identity, kind: kind, record: record)
            let id = database.nextTimeline()
            _ = database.lock(.timeline(id), .update, transaction)
            transaction.writes.append(.timeline(id, row))
            inserted.append((id, row))
        }
        _ = database.appendLists(of: inserted, &transaction)
        return .done
    }

    /// `FOR KEY SHARE`: a timeline that a widget is about to show cannot be collected.
    private mutating func lock(_ database: inout Database) -> Progress {
        let found = identities.compactMap { transaction.snapshot.timeline(of: $0)?.id }
        for id in found where !database.lock(.timeline(id), .keyShare, transaction) { return .blocked }
        placed = []
        let newest = database.newest(transaction)
        for id in found {
            guard let row = newest.timelines[id] else { continue }
            placed.append((row.identity, id))
            if row.state.isOrphaned || row.state.isAsleep { revived.append(id) }
        }
        return .done
    }

    private mutating func write() -> Progress {
        for change in changes {
            let id = placed.first { $0.identity == change.identity }?.id
            transaction.writes.append(.widget(change.widget, WidgetRow(timeline: id, changedAt: change.changedAt)))
            if let old = change.old, old != id { departed.append(old) }
        }
        departed = Set(departed).sorted()
        return .done
    }

    // MARK: Marking

    private struct Mark {
        var events: Int64 = 0
        var urgency = RequestUrgency.budgeted
        var lane = ReloadLane.scheduled
        var reason: ReloadReason?
        var isViewed = false
        var isRevived = false
    }

    private func marks() -> Table<Mark> {
        var marks = Table<Mark>()
        func change(_ id: Int, _ body: (inout Mark) -> Void) {
            var mark = marks[id] ?? Mark()
            body(&mark)
            marks[id] = mark
        }
        let widgets = transaction.snapshot.widgets
        for request in batch.requests {
            for id in Set(request.widgets.compactMap { widgets[$0]?.timeline }).sorted() {
                change(id) {
                    $0.events += 1
                    $0.urgency = max($0.urgency, request.reason.urgency)
                    $0.lane = min($0.lane, request.reason.lane)
                    $0.reason = request.reason
                }
            }
        }
        for widget in batch.views {
            if let id = widgets[widget]?.timeline { change(id) { $0.isViewed = true } }
        }
        for id in revived {
            change(id) {
                $0.isRevived = true
                $0.lane = .interactive
            }
        }
        for id in departed { change(id) { _ in } }
        return marks
    }

    private mutating func mark(_ database: inout Database) -> Progress {
        let marks = marks()
        for (id, _) in marks.entries where transaction.snapshot.timelines[id] != nil {
            if !database.lock(.timeline(id), .noKeyUpdate, transaction) { return .blocked }
        }
        if hasRoom, token == nil { token = database.nextToken() }
        let newest = database.newest(transaction)
        var listed: [(id: Int, row: TimelineRow)] = []
        var written: [(id: Int, row: TimelineRow)] = []
        for (id, mark) in marks.entries where transaction.snapshot.timelines[id] != nil {
            guard var row = newest.timelines[id] else { continue }
            let isRevival = mark.isRevived && row.state.isOrphaned
            let added = mark.events + (isRevival ? 1 : 0)
            row.state.requested += added
            if mark.events > 0 && mark.urgency > .budgeted || isRevival {
                row.state.freeRequested = row.state.requested
            }
            if mark.urgency > .free { row.state.forcedRequested = row.state.requested }
            if added > 0 { row.requestedAt = transaction.now }
            if mark.events > 0 || mark.isViewed || mark.isRevived { row.state.isAsleep = false }
            // A tombstone may have been published, and comparisons skip orphaned rows: the next content is published
            // even if unchanged.
            if isRevival, !database.isOn(.revivalKeepsHash) { row.hash = nil }
            if mark.isRevived {
                row.state.isOrphaned = false
                row.placedAt = transaction.now
            }
            if let reason = mark.reason ?? (isRevival ? .placed : nil) { row.reason = reason }
            if mark.isViewed, row.viewedAt.map({ transaction.now - $0 >= ViewStatistics.interval }) ?? true {
                row.viewedAt = transaction.now
                row.views += 1
            }
            let kind = transaction.snapshot.kinds[row.kind].generations
            if row.record.improve(kind, lane: mark.lane, at: transaction.now) { listed.append((id, row)) }
            transaction.writes.append(.timeline(id, row))
            written.append((id, row))
            marked.append((id, added))
        }
        if database.isOn(.listedWithoutList) { return .done }
        let lease = token.map { (token: $0, end: transaction.now + SimulatedWorld.lease) }
        let lists = database.appendLists(of: listed, lease: lease, &transaction)
        if let lease, !lists.isEmpty {
            let tables = database.newest(transaction)
            handed = Job(
                lease: lease.token, leaseEnds: lease.end,
                lists: lists.compactMap { id in tables.work[id].map { HeldList(id: id, row: $0, wasLeased: false) } },
                reading: transaction.snapshot.kinds, rows: written, isHandedOver: true)
        }
        return .done
    }

    /// A separate statement, so that the last of several removals sees the others.
    private mutating func orphan(_ database: inout Database) -> Progress {
        let isBlind = database.isOn(.orphanCheckInMark)
        for id in departed where !database.lock(.timeline(id), .noKeyUpdate, transaction) { return .blocked }
        var listed: [(id: Int, row: TimelineRow)] = []
        let newest = database.newest(transaction)
        for id in departed {
            let widgets = isBlind ? shownToMark : transaction.snapshot.widgets
            let isShown = widgets.contains { $0?.timeline == id }
            guard var row = newest.timelines[id], !row.state.isOrphaned, !isShown else { continue }
            row.state.isOrphaned = true
            let kind = transaction.snapshot.kinds[row.kind].generations
            if row.record.improve(kind, lane: .bulk, at: transaction.now) { listed.append((id, row)) }
            transaction.writes.append(.timeline(id, row))
        }
        _ = database.appendLists(of: listed, &transaction)
        return .done
    }

    // MARK: The end

    private mutating func bump(_ database: inout Database) -> Progress {
        let kinds = Set(batch.bumps.map(\.kind)).sorted()
        for kind in kinds where !database.lock(.kind(kind), .noKeyUpdate, transaction) { return .blocked }
        for kind in kinds where !database.lock(.sweep(kind), .noKeyUpdate, transaction) { return .blocked }
        let newest = database.newest(transaction)
        for kind in kinds {
            var row = newest.kinds[kind]
            let bumps = batch.bumps.filter { $0.kind == kind }
            let urgency = bumps.map(\.reason.urgency).max() ?? .budgeted
            row.generations.current += Int64(bumps.count)
            if urgency > .budgeted { row.generations.free = row.generations.current }
            if urgency > .free { row.generations.forced = row.generations.current }
            transaction.writes.append(.kind(kind, row))
            var sweep = newest.sweeps[kind] ?? SweepRow(first: row.generations.current, generation: 0)
            sweep.generation = row.generations.current
            if !database.isOn(.raiseDoesNotGoRound) {
                sweep.until = sweep.cursor
                sweep.isWrapped = false
            }
            transaction.writes.append(.sweep(kind, sweep))
        }
        return .done
    }

    private mutating func finish(_ database: inout Database, fault: Fault, at now: Timestamp) -> Outcome {
        for advance in advances where !database.lock(.position(advance.partition), .noKeyUpdate, transaction) {
            return .going
        }
        let newest = database.newest(transaction)
        for advance in advances {
            let position = newest.positions[advance.partition]
            let isEpoch = position.epoch == advance.epoch || database.isOn(.positionsUnchecked)
            let isNext =
                position.next == advance.expected || database.isOn(.positionsUnchecked)
                || database.isOn(.positionsWithoutOffset)
            guard isEpoch, isNext else {
                database.rollBack(transaction)
                return .fenced
            }
            transaction.writes.append(.position(advance.partition, Position(epoch: position.epoch, next: advance.next)))
        }
        if fault == .lostBefore {
            database.rollBack(transaction)
            return .committed
        }
        database.commit(transaction, at: now)
        for item in log { database.witness.applied(item.offset, of: item.partition) }
        for (id, events) in marked where events > 0 { database.witness.asked(id, events: events) }
        for kind in Set(batch.bumps.map(\.kind)).sorted() {
            for (id, row) in database.tables.timelines.entries where row.kind == kind {
                database.witness.askedOfAll(id)
            }
        }
        return .committed
    }
}

/// Change of a position by a batch.
struct Advance: Hashable {
    let partition: Int
    let epoch: Int
    let expected: Int?
    let next: Int
}
