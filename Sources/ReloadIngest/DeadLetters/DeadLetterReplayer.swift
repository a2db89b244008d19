// SPDX-License-Identifier: Apache-2.0

package import JSON
import KafkaClient
import PostgresClient
import WidgetEvents
import WidgetModel
package import WidgetStore

/// Replays kept events: decodes, folds and applies them like a polled batch and marks them as replayed in the same
/// transaction, so that each takes effect once.
package struct DeadLetterReplayer: Sendable {
    /// Result of a replay.
    package struct Outcome: Hashable, Sendable {
        /// Number of applied events.
        package var replayed = 0
        /// Number of events that failed again and wait with their new error.
        package var failed = 0
        /// Failed events by error code.
        package var failures: [String: Int] = [:]
        /// Whether all selected events are of diverted apps, so that none was replayed.
        package var isHeldBack = false

        package init() {}

        /// Reason and remedy for ``isHeldBack``.
        package static let heldBack =
            "the app is diverted: its events are applied in order once it is resumed (`freshet dead-letters resume`)"

        static func + (left: Outcome, right: Outcome) -> Outcome {
            var sum = left
            sum.replayed += right.replayed
            sum.failed += right.failed
            sum.failures.merge(right.failures, uniquingKeysWith: +)
            return sum
        }

        package var json: JSONObject {
            var object = JSONObject()
            object["replayed"] = .number(JSONNumber(replayed))
            object["failed"] = .number(JSONNumber(failed))
            object["failures"] = .object(
                JSONObject(
                    failures.sorted { $0.key < $1.key }.map {
                        (key: $0.key, value: .number(JSONNumber($0.value)))
                    }))
            return object
        }
    }

    package struct Options: Hashable, Sendable {
        /// Whether to roll back, for a dry run.
        package var isRehearsal = false
        /// Most events per second; nil for no limit.
        package var rate: Int?
        /// Most events.
        package var limit = Int.max
        /// Whether the events' own times count as absent: they take the times of their messages.
        package var ignoresTimes = false

        package init() {}
    }

    /// Most events, and bytes of payload, in one transaction.
    private static let chunk = 500
    private static let chunkBytes = 8_388_608

    private let store: WidgetStore
    private var pool: PostgresPool { store.pool }
    private let applier: BatchApplier
    private let directory: DirectoryCache
    private let directoryAge: Duration
    private let decoder: RecordDecoder

    init(decoder: RecordDecoder, directoryAge: Duration, applier: BatchApplier) {
        (self.decoder, self.directoryAge, self.applier) = (decoder, directoryAge, applier)
        store = WidgetStore(pool: applier.pool)
        directory = DirectoryCache(pool: applier.pool)
    }

    /// Replays waiting events once each, oldest first, and wakes the workers. Events of diverted apps are left to
    /// ``resume(app:_:onProgress:)``, which applies them in order.
    ///
    /// - Parameter onProgress: called with the sum after every transaction.
    /// - Throws: `PostgresError` after several attempts; earlier transactions stay committed.
    package func replay(
        _ filter: DeadLetterFilter, _ options: Options = Options(), onProgress: (Outcome) -> Void = { _ in }
    ) async throws -> Outcome {
        var outcome = try await replay(filter, options, keepsOrder: false, onProgress: onProgress)
        if outcome == Outcome(), filter.causes.isEmpty || filter.causes.contains(.diverted) {
            var held = filter
            held.causes = [.diverted]
            outcome.isHeldBack = try await pool.query(Statements.countDeadLetters(held, limit: 1)) == [1]
        }
        await notify(of: outcome, options)
        return outcome
    }

    /// - Parameter keepsOrder: whether events may be ordered by their arrival, as in a resumption, which replays all
    ///   held-back events; otherwise by their time.
    private func replay(
        _ filter: DeadLetterFilter, _ options: Options, keepsOrder: Bool, onProgress: (Outcome) -> Void
    ) async throws -> Outcome {
        var total = Outcome()
        var last: Int64 = 0
        var size = Self.chunk
        var left = options.limit
        while left > 0 {
            var limit = min(size, left)
            if let rate = options.rate { limit = min(limit, max(1, rate / 4)) }
            let chunk = try await next(
                filter, after: last, limit: limit, keepsOrder: keepsOrder, options)
            switch chunk {
            case .none:
                return total
            case .poison(let count):
                size = max(1, count / 2)
            case .done(let outcome, let count, let id):
                total = total + outcome
                last = id
                left -= count
                size = min(Self.chunk, size * 2)
                onProgress(total)
                if let rate = options.rate { try await Task.sleep(for: .seconds(Double(count) / Double(rate))) }
            }
        }
        return total
    }

    /// Replays the events of a diverted app, ends the diversion once none is left, and wakes the workers. Until then
    /// new events are diverted too, so that none overtakes another.
    ///
    /// - Returns: the result, and whether the app was diverted.
    /// - Throws: `PostgresError`.
    package func resume(
        app: String, _ options: Options = Options(), onProgress: (Outcome) -> Void = { _ in }
    ) async throws -> (outcome: Outcome, wasDiverted: Bool) {
        var total = Outcome()
        var wasDiverted = false
        while true {
            // From the oldest each time, since ids are taken before their rows become visible.
            let (before, filter) = (total, DeadLetterFilter(owner: .app(app), causes: [.diverted]))
            total = before + (try await replay(filter, options, keepsOrder: true) { onProgress(before + $0) })
            let (isDiverted, isEnded) = try await store.retryingConflicts {
                try await pool.withTransaction { connection in
                    _ = try await connection.execute(.forgetFailures(app: app))
                    let isDiverted = try await !connection.query(.lockDiversion(app: app)).isEmpty
                    guard isDiverted else { return (false, true) }
                    return (true, try await connection.execute(.endDiversion(app: app)) > 0)
                }
            }
            wasDiverted = wasDiverted || isDiverted
            guard isEnded else { continue }
            await notify(of: total, options)
            return (total, wasDiverted)
        }
    }

    /// Wakes the workers; without the notification, they find the timelines at their next poll.
    private func notify(of outcome: Outcome, _ options: Options) async {
        if outcome.replayed > 0, !options.isRehearsal { _ = try? await pool.query(.notifyDue()) }
    }

    // MARK: A chunk

    /// A rehearsal throws its chunk, to undo the transaction.
    private enum Chunk: Error {
        case none
        case done(Outcome, count: Int, last: Int64)
        /// The database refuses one of the events.
        case poison(count: Int)
    }

    private func next(
        _ filter: DeadLetterFilter, after last: Int64, limit: Int, keepsOrder: Bool, _ options: Options
    ) async throws -> Chunk {
        let isRehearsal = options.isRehearsal
        let decoder = options.ignoresTimes ? decoder.ignoringTimes : decoder
        var first: StoredDeadLetter?
        var count = 0
        // Also after a COMMIT of unknown outcome: events that it applied do not wait any more.
        return try await store.retryingConflicts {
            let known = try await directory.directory(maximumAge: directoryAge)
            do {
                return try await pool.withTransaction { connection in
                    let rows = try await connection.query(
                        .deadLettersToReplay(
                            filter, after: last, limit: limit, maximumBytes: Self.chunkBytes, isResumption: keepsOrder))
                    guard let end = rows.last else { return .none }
                    first = rows.first
                    count = rows.count
                    let outcome = try await apply(rows, known, decoder, keepsOrder: keepsOrder, on: connection)
                    let chunk = Chunk.done(outcome, count: rows.count, last: end.id)
                    if isRehearsal { throw chunk }
                    return chunk
                }
            } catch let rehearsed as Chunk {
                return rehearsed
            } catch {
                switch ApplyFailure(error) {
                case .poison(let message):
                    guard count == 1, let row = first else { return .poison(count: count) }
                    return try await refused(row, message, isRehearsal: isRehearsal)
                case .directoryIsBehind:
                    try await directory.refresh()
                    throw PostgresError(.server, "the directory of kinds was behind", isRetriable: true)
                default:
                    throw error
                }
            }
        }
    }

    /// Applies dead letters that the caller's transaction has locked.
    private func apply(
        _ rows: [StoredDeadLetter], _ known: KindDirectory, _ decoder: RecordDecoder, keepsOrder: Bool,
        on connection: PostgresConnection
    ) async throws -> Outcome {
        let batch = KafkaBatch(rows.map { $0.letter.placed(keepsOrder: keepsOrder) })
        let prepared = PreparedBatch(batch, decoder: decoder)
        var (fold, _) = prepared.fold(prepared.items, known)
        if let current = try await directory.refresh(ifRegistered: fold.unknownNames) {
            (fold, _) = prepared.fold(prepared.items, current)
        }
        var outcome = Outcome()
        let outcomes: BatchApplier.Outcomes = { [fold] in prepared.outcomes(of: fold, $0, $1) }
        let applied = try await applier.write(
            fold, behind: PostgresPipeline(), on: connection, outcomes
        ) { rejected, pipeline in
            let failures = rejected.map { event in
                var row = rows[event.record]
                (row.letter.app, row.letter.code) = (event.app, event.code)
                (row.letter.error, row.letter.pointer) = (event.message, event.pointer)
                return row
            }
            let failed = Set(failures.map(\.id))
            let replayed = rows.lazy.map(\.id).filter { !failed.contains($0) }
            if !failures.isEmpty { _ = pipeline.append(.deadLettersFailedAgain(failures)) }
            if failed.count < rows.count { _ = pipeline.append(.deadLettersReplayed(Array(replayed))) }
            return nil
        }
        outcome.failed = applied.rejected.count
        outcome.replayed = rows.count - applied.rejected.count
        outcome.failures = Dictionary(applied.rejected.map { ($0.code, 1) }, uniquingKeysWith: +)
        return outcome
    }

    /// Records that the database refuses an event.
    private func refused(
        _ row: StoredDeadLetter, _ message: String, isRehearsal: Bool
    ) async throws -> Chunk {
        var failure = row
        (failure.letter.code, failure.letter.error, failure.letter.pointer) = ("databaseRefused", message, nil)
        if !isRehearsal { _ = try await pool.execute(.deadLettersFailedAgain([failure])) }
        var outcome = Outcome()
        outcome.failed = 1
        outcome.failures = [failure.letter.code: 1]
        return .done(outcome, count: 1, last: row.id)
    }
}

extension DeadLetter {
    /// The original message in its place.
    ///
    /// - Parameter keepsOrder: whether it may still be ordered by its arrival.
    fileprivate func placed(keepsOrder: Bool) -> (offset: Int64, message: KafkaMessage) {
        let headers = keepsOrder ? headers : headers.filter { $0.name.lowercased() != EventHandling.orderHeader }
        let message = KafkaMessage(
            topic: topic, partition: partition, key: key, value: payload,
            headers: headers.map { KafkaHeader(name: $0.name, value: $0.value) }, timestampMilliseconds: messageTime)
        return (offset, message)
    }
}
