// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import PostgresClient
import Synchronization
import Waiting
import WidgetModel
import WidgetStore

/// Ends lists without further timelines under way: compares published with stored content, then deletes many lists in
/// one transaction; or gives lists back.
final class WorkListCloser: Sendable {
    private struct State {
        var waiting: [HeldList] = []
        var isFinished = false
        /// The latest messages with the first content of a timeline.
        var firstMessages: [TimelineRevision] = []
        /// Those of them whose rows the database may have lost.
        var doubted: [TimelineRevision] = []

        mutating func note(_ messages: some Sequence<TimelineRevision>) {
            firstMessages += messages
            if firstMessages.count > 2 * WorkListCloser.firstMessages {
                firstMessages.removeFirst(firstMessages.count - WorkListCloser.firstMessages)
            }
        }
    }

    private static let limit = 1_000
    /// Most timelines of one comparison, which reads their contents: a list that was leased before brings up to two
    /// hundred.
    private static let comparedTimelines = 1_000
    /// Least time between two ends, so that a transaction ends the lists of several stores.
    private static let spacing = Duration.milliseconds(50)
    /// Comparisons after which a list goes back, since others keep storing its timelines.
    private static let comparisons = 5
    /// Number of messages with first contents that are always remembered; up to twice as many are.
    private static let firstMessages = 5_000

    private let context: WorkerContext
    private let directory: DirectoryCache
    private let state = Mutex(State())
    private let wakeUp = Signal()

    init(context: WorkerContext, directory: DirectoryCache) {
        self.context = context
        self.directory = directory
    }

    /// Number of lists that wait for their end.
    var waitingLists: Int { state.withLock { $0.waiting.count } }

    /// Appends lists for ``run()``.
    func append(_ closed: [HeldList]) {
        guard !closed.isEmpty else { return }
        state.withLock { $0.waiting += closed }
        wakeUp.signal()
    }

    /// Makes ``run()`` return when all appended lists have ended.
    func finish() {
        state.withLock { $0.isFinished = true }
        wakeUp.signal()
    }

    /// After a failover or a restore, makes ``run()`` check the timelines whose first content was published lately. When
    /// events that place and remove a widget are applied again in one batch, the timeline never gets a row, so nothing
    /// else finds the message that was published for it.
    func doubtFirstMessages() {
        state.withLock { state in
            state.doubted += state.firstMessages
            state.firstMessages = []
        }
        wakeUp.signal()
    }

    /// Publishes tombstones for doubted timelines without a row, and has the stored contents of the others published
    /// again.
    private func settleDoubts() async {
        while true {
            let some = state.withLock { Array($0.doubted.prefix(Self.limit)) }
            guard !some.isEmpty else { return }
            do {
                try await context.persistently(until: .seconds(Int64.max)) { try await distrust(some) }
                state.withLock { $0.doubted.removeFirst(some.count) }
            } catch {
                context.logger.error("cannot compare published timelines", metadata: ["error": "\(error)"])
                // `run()` tries again.
                return wakeUp.signal()
            }
        }
    }

    /// Ends lists, many in one transaction, until ``finish()`` or the task is cancelled.
    func run() async {
        while true {
            let mark = wakeUp.version
            await settleDoubts()
            while await endSome() {}
            if state.withLock({ $0.isFinished && $0.waiting.isEmpty }) { return }
            do {
                try await wakeUp.wait(past: mark)
                if !state.withLock({ $0.isFinished }) { try await context.clock.sleep(for: Self.spacing) }
            } catch {
                return
            }
        }
    }

    /// Ends waiting lists; false without any.
    @discardableResult
    func endSome() async -> Bool {
        let lists = state.withLock { state in
            let some = Array(state.waiting.prefix(Self.limit))
            state.waiting.removeFirst(some.count)
            return some
        }
        guard !lists.isEmpty else { return false }
        // Ends a probe of the output that published nothing.
        defer {
            context.output.endProbe()
            context.leases.roomFreed()
        }
        do {
            let returned = lists.filter { $0.returnDelay != nil }
            try await giveBack(returned)
            let finished = lists.filter { $0.returnDelay == nil }
            state.withLock { $0.note(finished.lazy.flatMap(\.firstPublished)) }
            let suspicious = finished.filter(\.list.wasLeasedBefore)
            let mustCompare = try await delete(finished.filter { !$0.list.wasLeasedBefore }, isCompared: false)
            var compared: [HeldList] = []
            var timelines = 0
            for list in suspicious + mustCompare {
                if !compared.isEmpty, timelines + list.comparedTimelines > Self.comparedTimelines {
                    try await compareAndDelete(compared)
                    (compared, timelines) = ([], 0)
                }
                compared.append(list)
                timelines += list.comparedTimelines
            }
            try await compareAndDelete(compared)
        } catch {
            // After their leases, the next holder compares.
            context.logger.error(
                "lists are left to their leases", metadata: ["count": "\(lists.count)", "error": "\(error)"])
        }
        return true
    }

    /// Deletes lists, and appends lists for lost leases. Returns the lists to compare first.
    private func delete(_ lists: [HeldList], isCompared: Bool) async throws -> [HeldList] {
        guard let deadline = lists.lazy.map(\.leaseEnds).max() else { return [] }
        let rows = try await context.halving(lists, until: deadline) { lists in
            var pipeline = PostgresPipeline()
            let ended = pipeline.append(
                .endLists(lists.map { (hold: $0.list.hold, isCompared: isCompared) }, worker: context.worker))
            return try await context.pool.run(pipeline, commits: true).rows(ended)
        }
        let rest = rows.filter { $0.outcome != .ended }
        guard !rest.isEmpty else { return [] }
        let outcomes = Dictionary(rest.map { ($0.hold, $0.outcome) }, uniquingKeysWith: { first, _ in first })
        let lost = lists.filter { outcomes[$0.list.hold] == .lost }.flatMap(\.published)
        if !lost.isEmpty {
            context.logger.notice(
                "published after the lease was lost; publishing anew", metadata: ["count": "\(lost.count)"])
            try await distrust(lost)
        }
        return lists.filter { outcomes[$0.list.hold] == .uncompared }
    }

    private func giveBack(_ lists: [HeldList]) async throws {
        guard !lists.isEmpty else { return }
        let returns = lists.map { closed in
            (hold: closed.list.hold, delay: closed.returnDelay ?? .zero, counts: closed.mayBeStored)
        }
        let held = Set(try await context.pool.query(.giveBackLists(returns)))
        // Only this process knows of messages under a lost lease.
        let lost = lists.filter { !held.contains($0.list.hold) }.flatMap(\.published)
        if !lost.isEmpty { try await distrust(lost) }
        if lists.contains(where: { $0.returnDelay == .zero }) { context.signals.timelines.signal() }
    }

    // MARK: Comparing

    /// Publishes stored content that differs from this process's last messages until none does, then ends the lists.
    private func compareAndDelete(_ lists: [HeldList]) async throws {
        guard !lists.isEmpty else { return }
        var last: [Int64: TimelineRevision] = [:]
        var suspects: Set<Int64> = []
        for closed in lists {
            suspects.formUnion(closed.list.suspects)
            for published in closed.published where published.revision > last[published.row]?.revision ?? -1 {
                last[published.row] = published
            }
        }
        suspects.subtract(last.keys)
        for _ in 0..<Self.comparisons {
            let compared: [PublishedRevision] =
                last.values.map { (row: $0.row, revision: $0.revision) }
                + suspects.map { (row: $0, revision: last[$0]?.revision ?? 0) }
            guard !compared.isEmpty else { break }
            let found = try await context.pool.query(.comparePublished(compared))
            let rows = found.filter { $0.timeline?.state.isOrphaned == false }
            let gone = found.filter { $0.timeline == nil }.compactMap { last[$0.row] }.filter { $0.revision > 0 }
            let orphans = found.filter { $0.timeline?.state.isOrphaned == true && last[$0.row]?.revision ?? 0 > 0 }
            guard !rows.isEmpty || !gone.isEmpty || !orphans.isEmpty else {
                _ = try await delete(lists, isCompared: true)
                return
            }
            let buried = orphans.isEmpty ? [] : try await context.pool.query(.buryOrphans(orphans.map(\.row)))
            guard try await publishAnew(rows, gone: gone + buried, &last) else { break }
            suspects.subtract(last.keys)
        }
        if last.isEmpty && suspects.isEmpty {
            _ = try await delete(lists, isCompared: true)
        } else {
            try await giveBack(
                lists.map { list in
                    var list = list
                    (list.returnDelay, list.mayBeStored) = (context.configuration.publishRetryDelay, true)
                    return list
                })
        }
    }

    /// Publishes content and tombstones.
    ///
    /// - Parameter gone: timelines with the revisions of their tombstones.
    /// - Returns: whether everything was acknowledged.
    private func publishAnew(
        _ rows: [PublishedDifference], gone: [TimelineRevision], _ last: inout [Int64: TimelineRevision]
    ) async throws -> Bool {
        let kinds = try await directory.directory(maximumAge: context.configuration.directoryAge).kinds
        var sent: [TimelineRevision] = []
        var contents: [KafkaMessage] = []
        var messages = context.messages
        for row in rows {
            guard let timeline = row.timeline, let content = row.content, let kind = kinds[timeline.kindID] else {
                continue
            }
            contents.append(
                messages.updated(timeline, of: kind, revision: timeline.contentRevision, content: content))
            sent.append((row: timeline.row, id: timeline.id, revision: timeline.contentRevision))
        }
        for published in gone {
            contents.append(context.removedMessage(published.id, revision: published.revision))
            sent.append((row: published.row, id: published.id, revision: 0))
        }
        let outcome = await context.output.publish(contents)
        context.metrics.published.increment(by: outcome.acknowledged.count)
        for place in outcome.acknowledged + outcome.refused.map(\.index) {
            last[sent[place].row] = sent[place]
        }
        // A timeline placed again may have been published before its tombstone.
        if !gone.isEmpty { try await suspect(gone.map(\.id)) }
        return outcome.failed.isEmpty
    }

    // MARK: Lost leases

    /// Appends timelines published under a lost lease for comparison; deleted ones get their tombstones again.
    private func distrust(_ published: [TimelineRevision]) async throws {
        let found = try await suspect(published.map(\.id))
        let gone = published.filter { !found.contains($0.id) && $0.revision > 0 }
        guard !gone.isEmpty else { return }
        let outcome = await context.output.publish(
            gone.map { context.removedMessage($0.id, revision: $0.revision) })
        if !outcome.failed.isEmpty {
            context.logger.error("tombstones could not be published", metadata: ["count": "\(outcome.failed.count)"])
        }
        try await suspect(gone.map(\.id))
    }

    /// Appends lists that count as leased before, and returns the timelines that exist.
    @discardableResult
    private func suspect(_ ids: [TimelineID]) async throws -> Set<TimelineID> {
        let found = Set(try await context.pool.query(.appendSuspects(ids)))
        if !found.isEmpty { context.signals.timelines.signal() }
        return found
    }
}

extension HeldList {
    /// Most timelines whose contents a comparison of the list reads.
    fileprivate var comparedTimelines: Int { published.count + list.suspects.count }
}
