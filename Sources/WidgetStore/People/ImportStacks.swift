import PostgresClient
package import WidgetModel

/// A stack of an import, with the time of its last change.
package typealias ImportedStack = (app: RegisteredApp, user: String, arrangement: StackArrangement, time: Timestamp)

extension WidgetStore {
    /// Writes a chunk of stacks in one transaction. As with events, an older time never overrides a newer one, and no time
    /// is after the database's.
    ///
    /// - Throws: `PostgresError`; nothing of the chunk is written then.
    package func importStacks(_ stacks: [ImportedStack]) async throws -> ImportCounts {
        guard !stacks.isEmpty else { return ImportCounts() }
        return try await retryingConflicts(isIdempotent: false) {
            try await pool.withTransaction { connection in
                let people = Dictionary(grouping: stacks) { ScopedIdentifier($0.app.id, $0.user) }
                let keys = people.keys.map { PersonKey(appID: $0.appID, user: $0.id.text) }
                var pipeline = PostgresPipeline()
                _ = pipeline.append(.createPeople(keys))
                let read = pipeline.append(.readPeople(keys))
                let clock = pipeline.append(.databaseTime())
                let results = try await connection.run(pipeline)
                let now = results.rows(clock).first ?? .distantFuture
                var counts = ImportCounts()
                var writes: [PersonWrite] = []
                for person in results.rows(read) {
                    let changes = people[ScopedIdentifier(person.appID, person.user)] ?? []
                    var record = try person.record(app: changes.first?.app.name ?? "")
                    record.forgetTimes(after: now)
                    let effects = changes.map { record.apply(.stack($0.arrangement), at: min($0.time, now)) }
                    let applied = effects.count { $0 != .ignored }
                    counts.stacks += applied
                    counts.older += changes.count - applied
                    guard applied > 0 else { continue }
                    writes.append(
                        PersonWrite(
                            appID: person.appID, user: person.user, arrangement: record.storedArrangement,
                            planning: effects.contains(.changed) ? .now : .never))
                }
                if !writes.isEmpty { _ = try await connection.query(.writePeople(writes)) }
                return counts
            }
        }
    }
}
