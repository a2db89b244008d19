import PostgresClient
import Synchronization
import WidgetModel

/// Parts of a population that are still to be inserted.
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

struct FillGround: Sendable {
    let now: Timestamp
    let revision: Int64
    let origin: Int64
    let kindIDs: [Int32]
    let generations: [Int64]
}

private let appointFilledSQL = """
    WITH filled AS (
        SELECT t.id, t.kind_id, t.listed_lane, t.listed_at, true AS listed_anew FROM timeline t
        WHERE t.id BETWEEN $1::int8 AND $2::int8
    ), \(Appending.lists(of: "filled"))
    SELECT count(*) AS lists, setval('timeline_id', greatest($2::int8, nextval('timeline_id'))) AS last FROM appended
    """

extension PostgresStatement where Self == Statements {
    /// The common ground of a fill: the database's time, a revision, the row of the population's first timeline, and the kinds'
    /// generations.
    static func beginFill() -> PostgresQuery<FillGround> {
        PostgresQuery(
            """
            SELECT now() AS now, nextval('token') AS revision,
                   coalesce((SELECT min(id) FROM timeline), nextval('timeline_id')) AS origin,
                   coalesce((SELECT array_agg(id ORDER BY id) FROM kind), '{}') AS kinds,
                   coalesce((SELECT array_agg(generation ORDER BY id) FROM kind), '{}') AS generations
            """
        ) { row in
            FillGround(
                now: try row.value("now"), revision: try row.value("revision"), origin: try row.value("origin"),
                kindIDs: try row.array("kinds"), generations: try row.array("generations"))
        }
    }

    /// Appends the lists of filled timelines, and has later timelines come behind them.
    static func appointFilled(_ rows: ClosedRange<Int64>) -> PostgresQuery<Void> {
        PostgresQuery(appointFilledSQL, rows.lowerBound, rows.upperBound)
    }
}

/// The values that all rows of a fill have in common.
struct FillScope: Sendable {
    private let now: Timestamp
    private let revision: Int64
    private let origin: Int64
    private let generations: [Int32: Int64]

    init(pool: PostgresPool) async throws {
        guard let row = try await pool.query(.beginFill()).first else {
            throw PostgresError(.decoding, "a fill cannot begin")
        }
        now = row.now
        revision = row.revision
        origin = row.origin
        generations = Dictionary(zip(row.kindIDs, row.generations), uniquingKeysWith: { $1 })
    }

    /// Primary key of the population's timeline of an index.
    func row(_ index: Int) -> Int64 { origin + Int64(index) }

    /// Long enough ago that no spacing holds a reload back.
    private var renderedAt: Timestamp { now - .seconds(3_600) }

    func insert(
        _ range: Range<Int>, _ timeline: (Int) -> FilledTimeline, on connection: PostgresConnection
    ) async throws {
        let rows = range.map { index -> FilledTimelineRow in
            let timeline = timeline(index)
            // On the grid of lists, so that many share one.
            let policyAt = timeline.nextReload.map { (now + $0).rounded(upTo: 1 << 28) }
            return FilledTimelineRow(
                id: row(index), timeline: timeline, generation: generations[timeline.kind.id] ?? 0, revision: revision,
                renderedAt: renderedAt, policyAt: policyAt, listedAt: Appointment.time(of: policyAt, at: now))
        }
        _ = try await connection.execute(.fillTimelines(rows))
    }

    func insert(_ widgets: [FilledWidget], on connection: PostgresConnection) async throws {
        let rows = widgets.map {
            FilledWidgetRow(widget: $0, timelineID: row($0.timeline), placedAt: renderedAt)
        }
        _ = try await connection.execute(.fillWidgets(rows))
    }
}
