import Logging
import PostgresClient

extension WorkerContext {
    /// Runs a statement over items, again with back-off when that can help, and in halves where it is more than the
    /// database does within its limits: what had to be halved is claimed in smaller numbers from then on.
    ///
    /// - Returns: what the parts answered, one after the other.
    /// - Throws: the error of the first part that could not be done before `deadline`; the parts before it are done.
    @discardableResult
    func inParts<Item, Answer>(
        _ items: [Item], until deadline: Duration, _ body: ([Item]) async throws -> [Answer]
    ) async throws -> [Answer] {
        let began = clock.elapsed
        do {
            return try await persistently(until: deadline, isDivisible: items.count > 1) { try await body(items) }
        } catch let error as PostgresError where error.asksForLess && items.count > 1 && clock.elapsed < deadline {
            statistics.count { $0.databaseErrors += 1 }
            claimSize.ended(begun: began, isInTime: false, at: clock.elapsed)
            logger.debug("too much for one statement", metadata: ["error": "\(error)", "items": "\(items.count)"])
            let middle = items.count / 2
            let first = try await inParts(Array(items[..<middle]), until: deadline, body)
            return try await first + inParts(Array(items[middle...]), until: deadline, body)
        }
    }

    /// The same, together with what other batches bring at the same time, if that goes well at once.
    func merged<Item, Row>(
        _ merger: StatementMerger<Item, Row>, _ items: [Item], until deadline: Duration,
        _ body: ([Item]) async throws -> [Row]
    ) async throws -> [Row] {
        do {
            if let rows = try await merger.run(items, body) { return rows }
        } catch is PostgresError {
            // Whether to try again, or less, or not at all, is decided below.
        }
        return try await inParts(items, until: deadline, body)
    }

    /// The same for statements that answer nothing.
    func inParts<Item>(
        _ items: [Item], until deadline: Duration, _ body: ([Item]) async throws -> Void
    ) async throws {
        _ = try await inParts(items, until: deadline) { items -> [Never] in
            try await body(items)
            return []
        }
    }

    /// The configuration with chunks of as many rows as the database is found to sweep at once.
    var sweepConfiguration: WorkerConfiguration {
        var configuration = configuration
        configuration.sweepChunk = sweepSize.share(of: configuration.sweepChunk)
        return configuration
    }
}
