// SPDX-License-Identifier: Apache-2.0

import WidgetModel

extension Job {
    /// Begins a statement for the rows at a stage, or only for the first of them.
    mutating func begin(
        _ work: OpenStatement.Work, _ context: JobContext, _ database: inout Database, _ output: inout SimulatedOutput,
        where isMeant: (Stage) -> Bool
    ) {
        var places = rows.indices.filter { isMeant(rows[$0].stage) }
        if context.how % 2 == 0 { places = Array(places.prefix(1)) }
        if work == .store {
            hasStored = true
            if database.isOn(.publishBeforeStore) { publishEarly(places, context, &output) }
        }
        open = OpenStatement(work: work, rows: places, transaction: database.begin(at: context.now))
    }

    private func publishEarly(_ places: [Int], _ context: JobContext, _ output: inout SimulatedOutput) {
        for place in places {
            guard case .fetched(let answer) = rows[place].stage, let row = rows[place].row else { continue }
            let sender = SimulatedOutput.Sender(worker: context.worker, job: number, isLate: false)
            let message = Message(revision: rows[place].token, value: answer.value)
            _ = output.send(row.identity, message, by: sender, at: context.now)
        }
    }

    /// Runs the second step of a statement: its locks, its writes and COMMIT.
    mutating func runStatement(_ context: JobContext, _ database: inout Database) {
        guard var statement = open else { return }
        open = nil
        var outcome: [(place: Int, stage: Stage)]?
        switch statement.work {
        case .store: outcome = store(&statement, context, &database)
        case .reschedule: outcome = reschedule(&statement, context, &database)
        case .bury: outcome = bury(&statement, context, &database)
        case .lockOrphans:
            lockOrphans(&statement, context, &database)
            if !database.isOn(.collectInOneStatement) { database.beginStatement(&statement.transaction) }
            statement.work = .collect
            open = statement
            return
        case .collect: outcome = collect(&statement, context, &database)
        }
        guard let outcome else {
            open = statement
            return
        }
        switch context.fault {
        case .lostBefore: database.rollBack(statement.transaction)
        case .none, .lostAfter: commit(statement, context, &database)
        }
        if context.fault == .none {
            for (place, stage) in outcome { rows[place].stage = stage }
        } else if context.how % 3 == 0 {
            isGivingBack = true
        }
    }

    private func commit(_ statement: OpenStatement, _ context: JobContext, _ database: inout Database) {
        if statement.work == .store {
            for case .timeline(let id, _) in statement.transaction.writes {
                guard let place = rows.firstIndex(where: { $0.id == id }), case .fetched(let answer) = rows[place].stage
                else { continue }
                database.witness.stored(id, fetchedAt: answer.fetchedAt)
            }
        }
        database.commit(statement.transaction, at: context.now)
        guard statement.work == .collect else { return }
        for case .timeline(let id, _?) in statement.transaction.writes { database.witness.asked(id, events: 1) }
    }

    /// Locks the job's lists `FOR SHARE`. Returns the indices of those with a valid lease; nil if one is locked.
    private func heldLists(_ transaction: Transaction, _ database: inout Database) -> Set<Int>? {
        var held: Set<Int> = []
        for place in lists.indices where transaction.snapshot.work[lists[place].id]?.lease == lease {
            guard database.lock(.work(lists[place].id), .share, transaction) else { return nil }
            if database.tables.work[lists[place].id]?.lease == lease { held.insert(place) }
        }
        return held
    }

    private func lockRows(_ statement: OpenStatement, _ held: Set<Int>, _ database: inout Database) -> Bool {
        for place in statement.rows where held.contains(rows[place].list) {
            let id = rows[place].id
            guard statement.transaction.snapshot.timelines[id] != nil else { continue }
            guard database.lock(.timeline(id), .noKeyUpdate, statement.transaction) else { return false }
        }
        return true
    }

    // MARK: Store

    private func store(
        _ statement: inout OpenStatement, _ context: JobContext, _ database: inout Database
    ) -> [(place: Int, stage: Stage)]? {
        guard let held = heldLists(statement.transaction, &database),
            lockRows(statement, held, &database)
        else { return nil }
        var outcome: [(place: Int, stage: Stage)] = []
        var listed: [(id: Int, row: TimelineRow)] = []
        for place in statement.rows {
            let item = rows[place]
            guard case .fetched(let answer) = item.stage, let read = item.row, held.contains(item.list),
                let row = database.tables.timelines[item.id]
            else {
                outcome.append((place, .done))
                continue
            }
            guard row.revision == read.revision || database.isOn(.storeUnchecked) else {
                outcome.append((place, .mismatched(answer)))
                continue
            }
            let isChanged = read.contentRevision == 0 || read.hash != answer.value
            var new = written(row, item, answer, isChanged: isChanged, context, database)
            let kind = statement.transaction.snapshot.kinds[row.kind].generations
            if appoint(&new, kind, as: read, at: statement.transaction.now, database) {
                listed.append((item.id, new))
            }
            statement.transaction.writes.append(.timeline(item.id, new))
            let message = Message(revision: item.token, value: answer.value)
            outcome.append((place, isChanged ? .publishing(message, isCollection: false) : .done))
        }
        _ = database.appendLists(of: listed, &statement.transaction)
        return outcome
    }

    private func appoint(
        _ row: inout TimelineRow, _ kind: KindGenerations, as read: TimelineRow, at now: Timestamp, _ database: Database
    ) -> Bool {
        guard database.isOn(.nextFromSnapshot) else { return row.record.appoint(kind, at: now) }
        var stale = row
        stale.state.requested = read.state.requested
        stale.state.isOrphaned = read.state.isOrphaned
        let isListed = stale.record.appoint(kind, at: now)
        row.listedAt = stale.listedAt
        row.listedLane = stale.listedLane
        return isListed
    }

    private func written(
        _ row: TimelineRow, _ item: JobRow, _ answer: Answer, isChanged: Bool, _ context: JobContext,
        _ database: Database
    ) -> TimelineRow {
        var new = row
        let read = item.row ?? row
        let requested = database.isOn(.requestsOfStore) ? row.state.requested : read.state.requested
        let generation =
            database.isOn(.generationOfStore)
            ? database.tables.kinds[row.kind].generations.current : item.kind.generations.current
        let next = context.world.rules[row.kind].next(
            policy: answer.policy, lastEntry: context.now, renderedAt: context.now,
            timeline: SimulatedWorld.id(of: row.identity), ledger: answer.ledger, views: read.facts.views)
        new.state.rendered = max(row.state.rendered, requested)
        new.state.generation = max(row.state.generation, generation)
        new.state.eligibleAt = next.eligibleAt
        new.state.freeAt = next.freeAt
        new.state.policyAt = next.policyAt
        new.state.retryAt = .distantPast
        new.state.isAsleep = false
        new.revision = item.token
        new.renderedAt = context.now
        new.attempts = 0
        new.ledger = answer.ledger
        if isChanged {
            new.content = answer.value
            new.hash = answer.value
            new.contentRevision = item.token
        }
        return new
    }

    /// Handles a row that was stored since the claim: the later claim's result stays.
    mutating func resolveMismatch(_ place: Int, _ answer: Answer, _ context: JobContext, _ database: inout Database) {
        let item = rows[place]
        rows[place].stage = .done
        guard let row = database.tables.timelines[item.id] else { return }
        // The job's own store succeeded but its answer was lost; a later one may have found the content unchanged.
        if row.contentRevision == item.token, !database.isOn(.ownStoreIsForeign) {
            rows[place].stage = .publishing(Message(revision: item.token, value: row.content), isCollection: false)
            return
        }
        guard row.revision < item.token else {
            // The list may hold the row's appointment, since a tombstone's revision makes none.
            if !database.isOn(.discardKeepsAppointment) { rows[place].stage = .rescheduled(.nothing) }
            return
        }
        let read = item.row ?? row
        rows[place].row = row
        rows[place].row?.state.requested = read.state.requested
        rows[place].row?.listedAt = read.listedAt
        rows[place].stage = .fetched(
            Answer(value: answer.value, policy: answer.policy, ledger: row.ledger, fetchedAt: answer.fetchedAt))
    }

    // MARK: Reschedule

    private func reschedule(
        _ statement: inout OpenStatement, _ context: JobContext, _ database: inout Database
    ) -> [(place: Int, stage: Stage)]? {
        guard let held = heldLists(statement.transaction, &database),
            lockRows(statement, held, &database)
        else { return nil }
        var listed: [(id: Int, row: TimelineRow)] = []
        var stages: [(place: Int, stage: Stage)] = []
        for place in statement.rows {
            var stage = Stage.done
            defer { stages.append((place, stage)) }
            let item = rows[place]
            guard case .rescheduled(let end) = item.stage, let read = item.row, held.contains(item.list),
                let row = database.tables.timelines[item.id]
            else { continue }
            let list = lists[item.list].row
            let isMine = list.generation == nil && row.listedAt == list.dueAt
            var new = row
            switch end {
            case .nothing where database.isOn(.nothingKeepsAppointment): continue
            case .fail(let retryAt):
                guard row.revision == read.revision else {
                    if !database.isOn(.failureKeepsAppointment) { stage = .rescheduled(.nothing) }
                    continue
                }
                new.state.retryAt = retryAt
                new.attempts += 1
            case .nothing, .wait, .sleep:
                guard isMine || list.generation != nil else { continue }
                if case .wait(let until) = end {
                    new.state.eligibleAt = until
                    if !database.isOn(.waitLeavesPolicy) { new.state.policyAt = max(new.state.policyAt, until) }
                }
                let isAsDecided =
                    row.state.requested == read.state.requested && row.viewedAt == read.viewedAt
                    && row.placedAt == read.placedAt
                    || database.isOn(.sleepUnchecked)
                if case .sleep = end, isAsDecided { new.state.isAsleep = true }
            }
            let kind = statement.transaction.snapshot.kinds[row.kind].generations
            let now = statement.transaction.now
            let isAnew =
                if isMine {
                    new.record.appoint(kind, at: now)
                } else if list.generation == nil || database.isOn(.lookForgetsGeneration) {
                    new.record.hasten(kind, at: now)
                } else {
                    new.record.lookThroughSweep(kind, at: now)
                }
            if isAnew { listed.append((item.id, new)) }
            statement.transaction.writes.append(.timeline(item.id, new))
        }
        _ = database.appendLists(of: listed, &statement.transaction)
        return stages
    }
}
