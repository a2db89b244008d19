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
    ///
    /// - Parameter time: on the worker's clock.
    func traces(of timelines: [ClaimedTimeline], at time: Duration) async -> [EventPosition: String] {
        let causes = Set(timelines.compactMap(\.cause))
        guard !causes.isEmpty else { return [:] }
        do throws(PostgresError) {
            guard try await anyExist(at: time) else { return [:] }
            let rows = try await pool.query(ReadEventTraces(Array(causes)))
            return Dictionary(rows.map { ($0.position, $0.traceparent) }, uniquingKeysWith: { first, _ in first })
        } catch {
            return [:]
        }
    }

    private func anyExist(at time: Duration) async throws(PostgresError) -> Bool {
        if let known = known.withLock({ $0 }), time < known.until { return known.exist }
        let exist = try await pool.query(EventTracesExist()).first ?? false
        known.withLock { $0 = (exist, time + (exist ? Self.presence : Self.absence)) }
        return exist
    }
}

extension ReloadBatch {
    /// The trace of the newest request among its timelines: what one request to the provider belongs to, for want of more
    /// than one.
    var newestTrace: String? {
        guard !traces.isEmpty else { return nil }
        return timelines.filter { timeline in timeline.cause.map { traces[$0] != nil } ?? false }
            .max { ($0.state.requestedAt ?? .distantPast, $0.claim) < ($1.state.requestedAt ?? .distantPast, $1.claim) }
            .flatMap { $0.cause.flatMap { traces[$0] } }
    }

    /// What the log says of it besides the rest: the trace, if there is one.
    var logMetadata: Logger.Metadata {
        guard let trace = newestTrace.flatMap({ TraceParent($0) }) else { return [:] }
        return ["trace_id": "\(trace.traceID)", "span_id": "\(trace.spanID)"]
    }

    /// The headers of a timeline's message.
    func traceHeaders(of timeline: ClaimedTimeline) -> [String: String] {
        guard !traces.isEmpty, let trace = timeline.cause.flatMap({ traces[$0] }) else { return [:] }
        return TraceHeaders.headers(of: TraceHeaders.context(of: trace))
    }
}
