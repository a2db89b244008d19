import Synchronization
import WidgetStore

/// What belongs to one claim, whose number no other claim has.
protocol ClaimedItem: Sendable {
    var claim: Int64 { get }
}

/// Runs one statement for the rows of several batches that come at the same time: a statement and its commit cost as much
/// for fifty rows as for a thousand.
///
/// Who finds a place free goes at once, with those who have come while there was none; where nothing hurries, he first
/// lets others come for a moment. One of the callers runs the statement, for all; there is no task of its own.
final class StatementMerger<Item: ClaimedItem, Row: ClaimedItem>: Sendable {
    /// What one who waited is told.
    private enum Turn: Sendable {
        case rows([Row])
        /// The statement that had his rows in it failed.
        case failed
        /// There is a place: he runs it for those who wait now.
        case lead
    }

    private struct Waiting: Sendable {
        let items: [Item]
        let continuation: CheckedContinuation<Turn, Never>
    }

    private struct State {
        var running = 0
        /// One of those who run waits for others to come.
        var isGathering = false
        var waiting: [Waiting] = []

        /// Takes a place, if one is free that nobody is to wait for.
        mutating func enter(of concurrency: Int) -> Bool {
            guard running < concurrency, !isGathering else { return false }
            running += 1
            return true
        }
    }

    private let state = Mutex(State())
    private let concurrency: Int
    private let limit: Int
    private let gathering: Duration
    private let clock: WorkerClock

    /// Rows for which it is not worth while to wait for more.
    private static var enough: Int { 100 }

    /// - Parameters:
    ///   - concurrency: statements at a time.
    ///   - limit: most rows of a statement; a single batch may have more.
    ///   - gathering: how long one who finds a place free lets others come, unless he has many rows himself.
    init(concurrency: Int, limit: Int, gathering: Duration = .zero, clock: WorkerClock = WorkerClock()) {
        self.concurrency = concurrency
        self.limit = limit
        self.gathering = gathering
        self.clock = clock
    }

    /// Statements that run, or gather.
    var running: Int { state.withLock { $0.running } }

    /// Batches that wait for a place.
    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Has the statement run for a batch's rows, perhaps together with others'.
    ///
    /// - Returns: the rows of the answer that are this batch's; nil when a statement for several batches failed: whose
    ///   rows were to blame is not known, so each is to try by itself.
    /// - Throws: what `body` throws for this batch's rows alone.
    func run(_ items: [Item], _ body: ([Item]) async throws -> [Row]) async throws -> [Row]? {
        let isPatient = gathering > .zero && items.count < Self.enough
        let isFree = state.withLock { state in
            guard state.enter(of: concurrency) else { return false }
            state.isGathering = isPatient
            return true
        }
        if isFree {
            if isPatient {
                // A task that is cancelled only does not wait.
                try? await clock.sleep(for: gathering)
                state.withLock { $0.isGathering = false }
            }
        } else {
            let turn = await withCheckedContinuation { continuation in
                let mayLead = state.withLock { state in
                    // A place may have come free in between.
                    if state.enter(of: concurrency) { return true }
                    state.waiting.append(Waiting(items: items, continuation: continuation))
                    return false
                }
                if mayLead { continuation.resume(returning: Turn.lead) }
            }
            switch turn {
            case .rows(let rows): return rows
            case .failed: return nil
            case .lead: break
            }
        }
        defer { handOn() }
        return try await lead(items, body)
    }

    private func lead(_ items: [Item], _ body: ([Item]) async throws -> [Row]) async throws -> [Row]? {
        let others = state.withLock { state in
            var count = items.count
            let taken = state.waiting.prefix { waiting in
                count += waiting.items.count
                return count <= limit
            }
            state.waiting.removeFirst(taken.count)
            return Array(taken)
        }
        guard !others.isEmpty else { return try await body(items) }
        var answers: [[Row]]
        do {
            let rows = try await body(others.reduce(into: items) { $0 += $1.items })
            answers = Self.sorted(rows, into: [items] + others.map(\.items))
        } catch {
            for other in others { other.continuation.resume(returning: .failed) }
            return nil
        }
        for (other, rows) in zip(others, answers.dropFirst()) { other.continuation.resume(returning: .rows(rows)) }
        return answers[0]
    }

    /// The rows of an answer by the batch that they belong to.
    private static func sorted(_ rows: [Row], into batches: [[Item]]) -> [[Row]] {
        var owners: [Int64: Int] = Dictionary(minimumCapacity: batches.reduce(0) { $0 + $1.count })
        for (index, batch) in batches.enumerated() { for item in batch { owners[item.claim] = index } }
        var answers = batches.map { batch -> [Row] in
            var answer: [Row] = []
            answer.reserveCapacity(batch.count)
            return answer
        }
        for row in rows { if let owner = owners[row.claim] { answers[owner].append(row) } }
        return answers
    }

    /// The place goes to the first who waits.
    private func handOn() {
        let next = state.withLock { state -> Waiting? in
            guard !state.waiting.isEmpty else {
                state.running -= 1
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.continuation.resume(returning: .lead)
    }
}

extension FetchedTimeline: ClaimedItem {
    var claim: Int64 { timeline.claim }
}

extension Completion: ClaimedItem {}
extension SaveContent.Row: ClaimedItem {}
extension CompleteTimelines.Row: ClaimedItem {}
