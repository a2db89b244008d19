import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// Finds the trace contexts of the events that cause reloads. Without stored contexts it costs a small query at
/// intervals. Errors are ignored, since traces are hints.
final class TraceLookup: Sendable {
    /// Validity of the knowledge that no contexts, or some, are stored.
    private static let absence = Duration.milliseconds(250)
    private static let presence = Duration.seconds(30)

    private let pool: PostgresPool
    private let known = Mutex<(exist: Bool, until: Duration)?>(nil)

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Trace contexts of the timelines' latest requests, by position.
    func traces(of timelines: [ClaimedTimeline], at time: Duration) async -> [EventPosition: String] {
        let causes = Set(timelines.compactMap(\.cause))
        guard !causes.isEmpty else { return [:] }
        do throws(PostgresError) {
            guard try await anyExist(at: time) else { return [:] }
            let rows = try await pool.query(.readEventTraces(Array(causes)))
            return Dictionary(rows.map { ($0.position, $0.traceparent) }, uniquingKeysWith: { first, _ in first })
        } catch {
            return [:]
        }
    }

    private func anyExist(at time: Duration) async throws(PostgresError) -> Bool {
        if let known = known.withLock({ $0 }), time < known.until { return known.exist }
        let exist = try await pool.query(Statements.eventTracesExist()).first ?? false
        known.withLock { $0 = (exist, time + (exist ? Self.presence : Self.absence)) }
        return exist
    }
}

extension TraceHeaders {
    static func headers(of timeline: ClaimedTimeline, in traces: [EventPosition: String]) -> [String: String] {
        guard !traces.isEmpty, let trace = timeline.cause.flatMap({ traces[$0] }) else { return [:] }
        return headers(of: context(of: trace))
    }
}
