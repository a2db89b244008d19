import Logging
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// Finds the trace contexts of the events that timelines are reloaded for.
///
/// Without any kept it costs one small query in a while, and never one for a batch. What cannot be read is not waited for:
/// a trace is a hint.
final class TraceLookup: Sendable {
    /// How long it is believed that there are none, and that there are some.
    private static let absence = Duration.milliseconds(250)
    private static let presence = Duration.seconds(30)

    private let pool: PostgresPool
    private let known = Mutex<(exist: Bool, until: Duration)?>(nil)

    init(pool: PostgresPool) {
        self.pool = pool
    }

    /// By the position of the latest request: of each timeline that has one with a trace.
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

extension FetchBatch {
    /// The trace of the newest request among its timelines: one request to the provider belongs to one trace at most.
    var newestTrace: String? {
        guard !traces.isEmpty else { return nil }
        return items.lazy.map(\.timeline).filter { timeline in timeline.cause.map { traces[$0] != nil } ?? false }
            .max { ($0.requestedAt ?? .distantPast, $0.row) < ($1.requestedAt ?? .distantPast, $1.row) }
            .flatMap { $0.cause.flatMap { traces[$0] } }
    }

    /// The newest trace, for the log; empty when there is none.
    var logMetadata: Logger.Metadata {
        guard let trace = newestTrace.flatMap({ TraceParent($0) }) else { return [:] }
        return ["trace_id": "\(trace.traceID)", "span_id": "\(trace.spanID)"]
    }
}

extension TraceHeaders {
    static func headers(of timeline: ClaimedTimeline, in traces: [EventPosition: String]) -> [String: String] {
        guard !traces.isEmpty, let trace = timeline.cause.flatMap({ traces[$0] }) else { return [:] }
        return headers(of: context(of: trace))
    }
}
