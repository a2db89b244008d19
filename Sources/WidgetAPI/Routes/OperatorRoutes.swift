import Hummingbird
import PostgresClient
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes for operators: explanations, forecasts, dead letters and pausing.
struct OperatorRoutes: Sendable {
    let parts: APIParts

    var all: [APIRoute] {
        [
            APIRoute("explainWidget", .get, "widgets/{widget}/explanation", .app(.operate), handle: explain),
            APIRoute("getForecast", .get, "forecast", .app(.operate), handle: forecast),
            APIRoute("listDeadLetters", .get, "dead-letters", .app(.operate), handle: listDeadLetters),
            APIRoute("getDeadLetter", .get, "dead-letters/{letter}", .app(.operate), handle: deadLetter),
            APIRoute("discardDeadLetter", .delete, "dead-letters/{letter}", .app(.operate), handle: discard),
            APIRoute("pauseApp", .put, "pause", .app(.operate)) { try await set(true, $0) },
            APIRoute("resumeApp", .delete, "pause", .app(.operate)) { try await set(false, $0) },
            APIRoute("pauseKind", .put, "kinds/{kind}/pause", .app(.operate)) { try await setKind(true, $0) },
            APIRoute("resumeKind", .delete, "kinds/{kind}/pause", .app(.operate)) { try await setKind(false, $0) },
        ]
    }

    private func explain(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        let pool = parts.store.pool
        let widget = try call.path("widget")
        guard let explanation = try await pool.query(ReadExplanation(app: call.app, widget: widget)).first else {
            throw Problem.notFound
        }
        let keys = [explanation.widget, explanation.user, explanation.device]
        let refused = try await pool.query(RefusedRequests(app: call.app, keys: keys))
        let ignored = try await pool.query(IgnoredEvents(app: call.app, widget: widget))
        let events = await parts.lookup.events(explanation.timeline?.causes ?? [], of: call.app)
        return explanation.json(events: events, refused: refused, ignored: ignored).response()
    }

    private func forecast(_ call: APICall) async throws -> Response {
        try call.allowQuery("hours")
        let hours = try call.integer("hours", in: 1...168, default: 24)
        let rows = try await parts.store.pool.query(ForecastDue(app: call.app, hours: hours))
        return Forecast(rows, hours: hours).json.response()
    }

    // MARK: Dead letters

    private func listDeadLetters(_ call: APICall) async throws -> Response {
        try call.allowQuery("cause", "limit", "cursor")
        let limit = try call.integer("limit", in: 1...1_000, default: 100)
        var causes: [DeadLetterCause] = []
        if let name = call.text("cause") {
            guard let cause = DeadLetterCause(rawValue: name) else {
                throw Problem.parameter(
                    "cause", "expected one of \(DeadLetterCause.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            causes = [cause]
        }
        var before: Int64?
        if let cursor = try PageCursor.decode(call) {
            guard let id = Int64(cursor) else { throw Problem.unknownCursor }
            before = id
        }
        let statement = ListAppDeadLetters(app: call.app, causes: causes, before: before, limit: limit)
        let letters = try await parts.store.pool.query(statement)
        let next = letters.count == limit ? letters.last.map { PageCursor.encode("\($0.id)") } : nil
        return (["deadLetters": .array(letters.map(\.json)), "next": .text(next)] as JSONValue).response()
    }

    private func letterID(_ call: APICall) throws(Problem) -> Int64 {
        let text = try call.path("letter")
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let id = Int64(text) else { throw .notFound }
        return id
    }

    private func deadLetter(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        let statement = ReadAppDeadLetter(app: call.app, id: try letterID(call))
        guard let row = try await parts.store.pool.query(statement).first,
            case .object(var object) = row.summary.json
        else { throw Problem.notFound }
        // Headers are left out, since they may hold secrets.
        object["key"] = .text(row.letter.key.map { String(decoding: $0, as: UTF8.self) })
        object["payload"] = .text(row.letter.payload.map { String(decoding: $0.prefix(65_536), as: UTF8.self) })
        return JSONValue.object(object).response()
    }

    private func discard(_ call: APICall) async throws -> Response {
        try call.allowQuery()
        var filter = DeadLetterFilter(owner: .app(call.app))
        filter.ids = [try letterID(call)]
        let ids = try await parts.store.pool.query(DiscardDeadLetters(filter, limit: 1))
        guard !ids.isEmpty else { throw Problem.notFound }
        return Response(status: .noContent)
    }

    // MARK: Pausing

    private func set(_ isPaused: Bool, _ call: APICall, kind: String? = nil) async throws -> Response {
        try call.allowQuery()
        let store = parts.store
        let outcome =
            isPaused
            ? try await store.pause(app: call.app, kind: kind) : try await store.resume(app: call.app, kind: kind)
        guard let outcome else { throw Problem.notFound }
        return outcome.json(app: call.app, kind: kind).response()
    }

    private func setKind(_ isPaused: Bool, _ call: APICall) async throws -> Response {
        try await set(isPaused, call, kind: try call.path("kind"))
    }
}
