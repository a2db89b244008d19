// SPDX-License-Identifier: Apache-2.0

import WidgetModel

extension Job {
    // MARK: Collect

    /// Assigns revisions for the tombstones of orphaned rows; stores with lower ones are discarded from here on.
    mutating func bury(
        _ statement: inout OpenStatement, _ context: JobContext, _ database: inout Database
    ) -> [(place: Int, stage: Stage)]? {
        for place in statement.rows where statement.transaction.snapshot.timelines[rows[place].id] != nil {
            guard database.lock(.timeline(rows[place].id), .noKeyUpdate, statement.transaction) else { return nil }
        }
        return statement.rows.map { place in
            let id = rows[place].id
            guard case .orphaned(let isCollection) = rows[place].stage, var row = database.tables.timelines[id],
                row.state.isOrphaned
            else {
                returning.append(id)
                return (place, .done)
            }
            let token = database.isOn(.tombstoneOfContent) ? row.contentRevision : database.nextToken()
            if !database.isOn(.tombstoneUnstored) { row.revision = max(row.revision, token) }
            rows[place].buriedAs = row.revision
            statement.transaction.writes.append(.timeline(id, row))
            return (place, .publishing(Message(revision: token, value: nil), isCollection: isCollection))
        }
    }

    /// `FOR UPDATE SKIP LOCKED`: returns the lists of rows that are locked or were stored after their tombstones, since
    /// content may have been published after those.
    mutating func lockOrphans(_ statement: inout OpenStatement, _ context: JobContext, _ database: inout Database) {
        collecting = statement.rows.filter { place in
            guard database.lock(.timeline(rows[place].id), .update, statement.transaction),
                let row = database.tables.timelines[rows[place].id]
            else { return false }
            if database.isOn(.collectsRevived) { return true }
            return row.state.isOrphaned && row.revision == rows[place].buriedAs
        }
    }

    /// Deletes locked rows that no widget shows; others stay and are requested.
    mutating func collect(
        _ statement: inout OpenStatement, _ context: JobContext, _ database: inout Database
    ) -> [(place: Int, stage: Stage)]? {
        var outcome: [(place: Int, stage: Stage)] = []
        var listed: [(id: Int, row: TimelineRow)] = []
        for place in statement.rows {
            let id = rows[place].id
            guard collecting.contains(place), var row = database.tables.timelines[id] else {
                if database.tables.timelines[id] != nil { returning.append(id) }
                outcome.append((place, .done))
                continue
            }
            guard statement.transaction.snapshot.isShown(id) else {
                statement.transaction.writes.append(.timeline(id, nil))
                outcome.append((place, .done))
                continue
            }
            row.state.isOrphaned = false
            row.state.requested += 1
            row.state.freeRequested = row.state.requested
            row.hash = nil
            let kind = statement.transaction.snapshot.kinds[row.kind].generations
            if row.record.appoint(kind, at: statement.transaction.now) { listed.append((id, row)) }
            statement.transaction.writes.append(.timeline(id, row))
            outcome.append((place, .done))
        }
        _ = database.appendLists(of: listed, &statement.transaction)
        return outcome
    }

    // MARK: End and return

    /// Ends the lists, each by ID and lease token, in one transaction. Returns whether the job has ended.
    mutating func end(_ context: JobContext, _ database: inout Database) -> Bool {
        let returning = returning
        return close(context, &database) { list in
            guard list.timelines.allSatisfy({ !returning.contains($0) }) else {
                var list = list
                list.readyAt = context.now + .seconds(1)
                list.lease = nil
                return list
            }
            return nil
        }
    }

    /// Returns the lists unchanged.
    mutating func giveBack(_ context: JobContext, _ database: inout Database) -> Bool {
        let counts = hasStored || !sentRows.isEmpty
        let delay = Duration.seconds(context.how % 20)
        return close(context, &database) { list in
            var list = list
            list.readyAt = context.now + delay
            list.lease = nil
            if !counts { list.leases -= 1 }
            return list
        }
    }

    /// - Parameter change: Returns the list's replacement; nil deletes the list.
    private mutating func close(_ context: JobContext, _ database: inout Database, _ change: (WorkList) -> WorkList?)
        -> Bool
    {
        var transaction = database.begin(at: context.now)
        for list in lists where !database.lock(.work(list.id), .update, transaction) {
            database.rollBack(transaction)
            return false
        }
        for list in lists {
            let row = database.tables.work[list.id]
            if let row, row.lease == lease || database.isOn(.endWithoutToken) {
                transaction.writes.append(.work(list.id, change(row)))
                continue
            }
            // Another worker has the list: these rows go into a new list, whose holder compares all of them.
            let ids = list.row.timelines.filter { sentRows.contains($0) }
            if ids.isEmpty { continue }
            let suspects = WorkList(
                kind: list.row.kind, lane: .push, dueAt: transaction.now, readyAt: transaction.now, leases: 1,
                timelines: ids)
            database.append(suspects, &transaction)
        }
        if context.fault == .lostBefore {
            database.rollBack(transaction)
        } else {
            database.commit(transaction, at: context.now)
        }
        return context.fault == .none
    }
}
