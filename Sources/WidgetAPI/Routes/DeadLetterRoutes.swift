import Hummingbird
import JSON
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// Routes of the app's dead letters.
extension RouteDependencies {
    /// Upper bound of a count.
    static let countLimit = 100_000
    /// Bytes of a payload that a response contains.
    static let payloadLimit = 65_536
    /// Largest number of letters of a replay.
    private static let replayLimit = 10_000

    var deadLetterRoutes: [APIRoute] {
        [
            APIRoute(
                "listDeadLetters", .get, "dead-letters", .app(.operateRead), query: ["cause", "limit", "cursor"],
                handle: list),
            APIRoute("countDeadLetters", .get, "dead-letter-counts", .app(.operateRead), handle: count),
            APIRoute(
                "replayDeadLetters", .post, "dead-letters/replay", .app(.operate), query: ["cause", "limit", "dryRun"],
                handle: replayAll),
            APIRoute("getDeadLetter", .get, "dead-letters/{letter}", .app(.operateRead), handle: get),
            APIRoute("discardDeadLetter", .delete, "dead-letters/{letter}", .app(.operate), handle: discard),
            APIRoute(
                "replayDeadLetter", .post, "dead-letters/{letter}/replay", .app(.operate), query: ["dryRun"],
                handle: replay),
        ]
    }

    private func list(_ call: APICall) async throws -> Response {
        let limit = try call.integer("limit", in: 1...1_000, default: 100)
        var before: Int64?
        if let cursor = try PageCursor.decode(call) {
            guard let id = Int64(cursor) else { throw Problem.unknownCursor }
            before = id
        }
        let statement = Statements.listAppDeadLetters(
            app: call.app, causes: try causes(call), before: before, limit: limit)
        let letters = try await store.query(statement)
        let next = letters.count == limit ? letters.last.map { PageCursor.encode("\($0.id)") } : nil
        return Response(["deadLetters": .array(letters.map(\.json)), "next": .text(next)])
    }

    private func letterID(_ call: APICall) throws(Problem) -> Int64 {
        let text = try call.path("letter")
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let id = Int64(text) else { throw .notFound }
        return id
    }

    private func get(_ call: APICall) async throws -> Response {
        let statement = Statements.readDeadLetter(id: try letterID(call), app: call.app)
        guard let row = try await store.query(statement).first,
            case .object(var object) = row.summary.json
        else { throw Problem.notFound }
        // Headers are left out, since they may hold secrets.
        object["key"] = .text(row.letter.key.map { String(decoding: $0, as: UTF8.self) })
        object["payload"] = .text(
            row.letter.payload.map { String(decoding: $0.prefix(Self.payloadLimit), as: UTF8.self) })
        return Response(.object(object))
    }

    private func discard(_ call: APICall) async throws -> Response {
        var filter = DeadLetterFilter(owner: .app(call.app))
        filter.ids = [try letterID(call)]
        let ids = try await store.query(.discardDeadLetters(filter, limit: 1))
        guard !ids.isEmpty else { throw Problem.notFound }
        return Response(status: .noContent)
    }

    // MARK: Causes and replays

    /// The cause of the query; empty for any.
    private func causes(_ call: APICall) throws(Problem) -> [DeadLetterCause] {
        guard let name = call.text("cause") else { return [] }
        guard let cause = DeadLetterCause(rawValue: name) else {
            throw .parameter(
                "cause", "expected one of \(DeadLetterCause.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return [cause]
    }

    private func count(_ call: APICall) async throws -> Response {
        var counts = JSONObject()
        for cause in DeadLetterCause.allCases {
            let filter = DeadLetterFilter(owner: .app(call.app), causes: [cause])
            let count =
                try await store.query(Statements.countDeadLetters(filter, limit: Self.countLimit)).first ?? 0
            counts[cause.rawValue] = .count(count)
        }
        return Response(["counts": .object(counts), "limit": .count(Self.countLimit)])
    }

    private func replayAll(_ call: APICall) async throws -> Response {
        let limit = try call.integer("limit", in: 1...Self.replayLimit, default: 1_000)
        return try await replay(DeadLetterFilter(owner: .app(call.app), causes: try causes(call)), limit, call)
    }

    private func replay(_ call: APICall) async throws -> Response {
        var filter = DeadLetterFilter(owner: .app(call.app))
        filter.ids = [try letterID(call)]
        guard try await store.query(Statements.countDeadLetters(filter, limit: 1)) == [1] else {
            throw Problem.notFound
        }
        return try await replay(filter, 1, call)
    }

    private func replay(_ filter: DeadLetterFilter, _ limit: Int, _ call: APICall) async throws -> Response {
        let isRehearsal = try call.flag("dryRun")
        var object = try await replay(filter, limit: limit, isRehearsal: isRehearsal).json
        object["dryRun"] = .bool(isRehearsal)
        return Response(.object(object))
    }

    /// Replays dead letters.
    func replay(
        _ filter: DeadLetterFilter, limit: Int, isRehearsal: Bool
    ) async throws -> DeadLetterReplayer.Outcome {
        var options = DeadLetterReplayer.Options()
        options.isRehearsal = isRehearsal
        options.limit = limit
        let outcome = try await DeadLetterReplayer(configuration: resources.ingest, pool: store.pool).replay(
            filter, options)
        guard !outcome.isHeldBack else { throw Problem.conflict(DeadLetterReplayer.Outcome.heldBack) }
        return outcome
    }
}
