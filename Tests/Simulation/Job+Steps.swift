// SPDX-License-Identifier: Apache-2.0

import WidgetModel

extension Job {
    /// Runs one of the possible steps. Returns whether the job has ended.
    mutating func step(
        _ context: JobContext, _ database: inout Database, _ output: inout SimulatedOutput
    ) -> Bool {
        if open != nil {
            runStatement(context, &database)
            return false
        }
        if isUnregistered {
            isUnregistered = false
            database.register(context.worker, at: context.now)
            return false
        }
        let isQuiet = !rows.contains { if case .sent = $0.stage { true } else { false } }
        if isGivingBack, isQuiet { return giveBack(context, &database) }
        if isDone { return isCompared(context, &database) ? end(context, &database) : false }
        let places = rows.indices.filter { isActive(rows[$0].stage) }
        guard !places.isEmpty else { return false }
        advance(places[context.how / 7 % places.count], context, &database, &output)
        return false
    }

    private func isActive(_ stage: Stage) -> Bool {
        switch stage {
        case .done, .waiting: false
        case .sent: true
        default: !isGivingBack
        }
    }

    private mutating func advance(
        _ place: Int, _ context: JobContext, _ database: inout Database, _ output: inout SimulatedOutput
    ) {
        switch rows[place].stage {
        case .done, .waiting: break
        case .read: decide(place, context, &database)
        case .fetching(let ledger): fetch(place, ledger, context, &database)
        case .fetched: begin(.store, context, &database, &output) { if case .fetched = $0 { true } else { false } }
        case .rescheduled:
            begin(.reschedule, context, &database, &output) { if case .rescheduled = $0 { true } else { false } }
        case .orphaned: begin(.bury, context, &database, &output) { if case .orphaned = $0 { true } else { false } }
        case .buried: begin(.lockOrphans, context, &database, &output) { if case .buried = $0 { true } else { false } }
        case .mismatched(let answer): resolveMismatch(place, answer, context, &database)
        case .publishing(let message, let isCollection):
            // The delivery timeout is shorter than the rest of the lease.
            if leaseEnds - context.now > SimulatedWorld.longestPublish {
                rows[place].stage = .sending(message, isCollection: isCollection)
            } else {
                isGivingBack = true
            }
        case .sending(let message, let isCollection): send(place, message, isCollection, context, &output)
        case .sent(let id, let message, let isCollection):
            awaitAcknowledgement(place, id, message, isCollection, context, output)
        }
    }

    // MARK: Decide, fetch

    /// Reads a row that waited, with its own token: its revision may be above the claim's.
    mutating func readAgain(_ place: Int, _ database: inout Database) {
        let tables = database.tables
        rows[place].row = tables.timelines[rows[place].id]
        if let row = rows[place].row { rows[place].kind = tables.kinds[row.kind] }
        if !database.isOn(.rereadKeepsToken) { rows[place].token = database.nextToken() }
        rows[place].stage = .read
    }

    private mutating func decide(_ place: Int, _ context: JobContext, _ database: inout Database) {
        let item = rows[place]
        rows[place].stage = .done
        guard let row = item.row else { return }
        let generations = item.kind.generations
        let list =
            lists.firstIndex {
                $0.row.generation == nil && $0.row.dueAt == row.listedAt && $0.row.timelines.contains(item.id)
            }
            ?? lists.firstIndex {
                guard let generation = $0.row.generation, $0.row.timelines.contains(item.id) else { return false }
                return row.state.generation < generation && generation > generations.cancelled
            }
        guard let list else { return }
        rows[place].list = list
        let rules = context.world.rules[row.kind]
        switch rules.decide(
            row.state, generations, facts: row.facts, sweep: lists[list].row.generation, at: context.now)
        {
        case .collect:
            rows[place].stage = .orphaned(isCollection: true)
        case .nothing: rows[place].stage = .rescheduled(.nothing)
        case .fetch(_, let ledger):
            rows[place].fetchedAt = database.witness.fetchBegins()
            rows[place].stage = .fetching(ledger: ledger)
        case .wait(let until, _): rows[place].stage = .rescheduled(.wait(until: until))
        case .sleep: rows[place].stage = .rescheduled(.sleep)
        }
    }

    private mutating func fetch(_ place: Int, _ ledger: BudgetLedger, _ context: JobContext, _ database: inout Database)
    {
        let how = context.how
        if context.fault != .none {
            // The provider fails, or its breaker opens and the lists are returned unchanged.
            if how % 4 == 0 {
                isGivingBack = true
            } else {
                rows[place].stage = .rescheduled(.fail(retryAt: context.now + .seconds(how % 90)))
            }
            return
        }
        let policy: ReloadPolicy =
            switch context.isCalm ? 0 : how / 3 % 4 {
            case 0, 1: .never
            case 2: .after(context.now + .seconds(60 * how))
            default: .atEnd
            }
        rows[place].stage = .fetched(
            // Often equal to the stored value, which the store has to detect.
            Answer(value: UInt8(how % 3), policy: policy, ledger: ledger, fetchedAt: rows[place].fetchedAt))
    }

    // MARK: Publish

    private mutating func send(
        _ place: Int, _ message: Message, _ isCollection: Bool, _ context: JobContext, _ output: inout SimulatedOutput
    ) {
        guard let identity = rows[place].row?.identity else {
            rows[place].stage = .done
            return
        }
        let sender = SimulatedOutput.Sender(
            worker: context.worker, job: number,
            isLate: leaseEnds - context.now < SimulatedWorld.longestPublish)
        let id = output.send(identity, message, by: sender, at: context.now)
        sentRows.append(rows[place].id)
        rows[place].stage = .sent(id, message, isCollection: isCollection)
    }

    private mutating func awaitAcknowledgement(
        _ place: Int, _ id: Int, _ message: Message, _ isCollection: Bool, _ context: JobContext,
        _ output: SimulatedOutput
    ) {
        guard let hasLanded = output.fate(id) else { return }
        guard hasLanded, context.fault == .none else {
            rows[place].stage = .done
            isGivingBack = true
            return
        }
        if let identity = rows[place].row?.identity { notePublished(identity, rows[place].id, message) }
        rows[place].stage = isCollection ? .buried : .done
    }

    // MARK: Compare

    /// Compares published and stored content in a snapshot after the acknowledgements; publishes differences.
    private mutating func isCompared(_ context: JobContext, _ database: inout Database) -> Bool {
        if database.isOn(.endBeforeComparison) { return true }
        let tables = database.tables
        let isAlone = database.isAlone(context.worker)
        var isEqual = true
        for place in rows.indices {
            let suspect = lists.contains { $0.wasLeased && $0.row.timelines.contains(rows[place].id) }
            let last = rows[place].row.flatMap { lastPublished($0.identity) }
            guard suspect || !isAlone && last != nil else { continue }
            if let stage = difference(place, tables, last: last, database) {
                rows[place].stage = stage
                isEqual = false
            }
        }
        return isEqual
    }

    private mutating func difference(
        _ place: Int, _ tables: Tables, last: Message?, _ database: Database
    ) -> Stage? {
        var found = tables.timelines[rows[place].id]
        if let identity = rows[place].row?.identity, !database.isOn(.comparedByRow) {
            found = tables.timeline(of: identity)?.row
        }
        if rows[place].row == nil { rows[place].row = found }
        let isOrphaned = found?.state.isOrphaned == true && !database.isOn(.orphanComparesAsShown)
        if let row = found, row.contentRevision > 0, !isOrphaned {
            let isSame = last?.value != nil && last?.revision == row.contentRevision
            let message = Message(revision: row.contentRevision, value: row.content)
            return isSame ? nil : .publishing(message, isCollection: false)
        }
        guard let last, last.value != nil else { return nil }
        if isOrphaned { return .orphaned(isCollection: false) }
        return .publishing(Message(revision: last.revision, value: nil), isCollection: false)
    }
}
