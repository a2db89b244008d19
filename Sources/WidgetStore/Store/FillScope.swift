import PostgresClient
import Synchronization
import WidgetModel

/// What is still to be copied, handed out in parts.
final class FillParts: Sendable {
    enum Part: Sendable {
        case timelines(Range<Int>)
        case widgets(Range<Int>)
    }

    private struct State {
        var timelines: Range<Int>
        var widgets: Range<Int>
        var done = 0
    }

    private let state: Mutex<State>
    private let size: Int

    init(_ population: FillPopulation, size: Int) {
        state = Mutex(State(timelines: population.timelines, widgets: population.widgets))
        self.size = size
    }

    func next() -> Part? {
        func take(_ range: inout Range<Int>) -> Range<Int>? {
            guard !range.isEmpty else { return nil }
            let end = min(range.lowerBound + size, range.upperBound)
            defer { range = end..<range.upperBound }
            return range.lowerBound..<end
        }
        return state.withLock { state in
            take(&state.timelines).map { .timelines($0) } ?? take(&state.widgets).map { .widgets($0) }
        }
    }

    func done(_ part: Part) -> Int {
        let count =
            switch part {
            case .timelines(let range), .widgets(let range): range.count
            }
        return state.withLock { state in
            state.done += count
            return state.done
        }
    }
}

/// What all rows of a fill have in common: the database's time and the generations as they are.
struct FillScope: Sendable {
    let now: Timestamp
    let generations: [Int32: Generations]

    struct Generations: Sendable {
        let kind: Int64
        let app: Int64
    }

    init(pool: PostgresPool) async throws {
        let rows = try await pool.query(FillGenerations())
        now = rows.first?.now ?? Timestamp(microseconds: 0)
        generations = Dictionary(
            rows.map { ($0.kindID, Generations(kind: $0.kind, app: $0.app)) }, uniquingKeysWith: { $1 })
    }

    /// Long enough ago that no spacing holds a reload back.
    private var renderedAt: Timestamp { now - .seconds(3_600) }

    func copy(_ timelines: [FilledTimeline], on connection: PostgresConnection) async throws {
        let keyed = timelines.map { (id: $0.identity.id, timeline: $0) }
        try await connection.withTransaction { connection in
            _ = try await connection.copyIn(FillTable.timelines, rows: keyed) { item, row in
                row.append(PostgresUUID(item.id))
                row.append(item.timeline.kind.id)
                row.append(item.timeline.identity)
            }
            _ = try await connection.copyIn(FillTable.states, rows: keyed) { item, row in
                state(item.timeline, id: item.id, to: &row)
            }
            let stored = keyed.filter { $0.timeline.content != nil }
            guard !stored.isEmpty else { return }
            _ = try await connection.copyIn(FillTable.contents, rows: stored) { item, row in
                row.append(PostgresUUID(item.id))
                row.append(PostgresUUID(item.timeline.hash))
                row.append(Int64(0))
                row.append(PostgresTimestamp(renderedAt))
                row.append(item.timeline.content ?? "")
            }
        }
    }

    private func state(_ timeline: FilledTimeline, id: TimelineID, to row: inout PostgresCopyRow) {
        let generations = generations[timeline.kind.id] ?? Generations(kind: 0, app: 0)
        let dueAt = timeline.nextReload.map { PostgresTimestamp(now + $0) } ?? .infinity
        row.append(PostgresUUID(id))
        row.append(Int64(1))
        row.append(Int64(1))
        row.append(Int64(1))
        row.append(generations.kind)
        row.append(generations.app)
        row.append(generations.kind + generations.app)
        row.append(dueAt)
        row.append(dueAt)
        row.append(PostgresTimestamp(renderedAt))
        row.append(PostgresTimestamp(renderedAt))
        row.append(PostgresUUID(timeline.hash))
        row.append(timeline.kind.id)
        row.append(ReloadLane.scheduled.rawValue)
    }

    func copy(_ widgets: [FilledWidget], on connection: PostgresConnection) async throws {
        _ = try await connection.copyIn(FillTable.widgets, rows: widgets) { widget, row in
            row.append(widget.placement, of: widget.kind)
            row.append(PostgresUUID(widget.timeline))
            row.append(PostgresTimestamp(renderedAt))
            row.append(PostgresTimestamp(renderedAt))
        }
    }
}
