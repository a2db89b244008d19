// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import JSON
import PostgresClient
import ReloadIngest
import WidgetModel
import WidgetStore

/// Routes of the app's dead letters.
extension Routes {
    /// Upper bound of a count.
    static let countLimit = 100_000
    /// Bytes of a payload that a response contains.
    static let payloadLimit = 65_536
    /// Largest number of letters of a replay.
    private static let replayLimit = 10_000

    var deadLetterRoutes: [APIRoute] {
        [
            APIRoute(
                "listDeadLetters", .get, "dead-letters", .app(.operateRead), query: ["cause", "limit", "cursor"]
            ) { call in
                let limit = try call.integer("limit", in: 1...1_000, default: 100)
                let cursor = try call.cursor()
                guard let before = cursor.map({ Int64($0) }) ?? .some(nil) else { throw Problem.unknownCursor }
                let letters = try await store.query(
                    .listAppDeadLetters(
                        app: call.app, causes: try call.deadLetterCauses(), before: before, limit: limit))
                let next = APICall.cursor(after: letters, limit: limit) { "\($0.id)" }
                return Response(["deadLetters": .array(letters.map(\.json)), "next": .text(next)])
            },
            APIRoute("countDeadLetters", .get, "dead-letter-counts", .app(.operateRead)) { call in
                let counts = try await deadLetterCounts(for: call.caller).map {
                    (key: $0.cause.rawValue, value: JSONValue.count($0.count))
                }
                return Response(["counts": .object(JSONObject(counts)), "limit": .count(Self.countLimit)])
            },
            APIRoute(
                "replayDeadLetters", .post, "dead-letters/replay", .app(.operate), query: ["cause", "limit", "dryRun"]
            ) { call in
                let limit = try call.integer("limit", in: 1...Self.replayLimit, default: 1_000)
                let filter = DeadLetterFilter(owner: .app(call.app), causes: try call.deadLetterCauses())
                return try await respond(toReplay: filter, limit: limit, call)
            },
            APIRoute("getDeadLetter", .get, "dead-letters/{letter}", .app(.operateRead)) { call in
                Response(try await deadLetter(try call.letterID(), for: call.caller).json)
            },
            APIRoute("discardDeadLetter", .delete, "dead-letters/{letter}", .app(.operate)) { call in
                var filter = DeadLetterFilter(owner: .app(call.app))
                filter.ids = [try call.letterID()]
                guard try await store.query(.discardDeadLetters(filter, limit: 1)).count == 1 else {
                    throw Problem.notFound
                }
                return Response(status: .noContent)
            },
            APIRoute(
                "replayDeadLetter", .post, "dead-letters/{letter}/replay", .app(.operate), query: ["dryRun"]
            ) { call in
                var filter = DeadLetterFilter(owner: .app(call.app))
                filter.ids = [try call.letterID()]
                guard try await store.query(Statements.countDeadLetters(filter, limit: 1)) == [1] else {
                    throw Problem.notFound
                }
                return try await respond(toReplay: filter, limit: 1, call)
            },
        ]
    }

    /// A dead letter as JSON, with as much of its message as is shown.
    func deadLetter(
        _ id: Int64, for caller: Caller
    ) async throws -> (state: DeadLetterSummary.State, json: JSONValue) {
        let statement = Statements.readDeadLetter(id: id, app: caller.app)
        guard let row = try await store.query(statement).first else { throw Problem.notFound }
        // Headers are left out, since they may hold secrets.
        let key = row.letter.key.map { String(decoding: $0, as: UTF8.self) }
        let payload = row.letter.payload.map { String(decoding: $0.prefix(Self.payloadLimit), as: UTF8.self) }
        return (row.summary.state, row.summary.json.adding("key", .text(key)).adding("payload", .text(payload)))
    }

    /// Waiting letters by cause, up to ``countLimit`` of each.
    func deadLetterCounts(for caller: Caller) async throws -> [(cause: DeadLetterCause, count: Int)] {
        var counts: [(cause: DeadLetterCause, count: Int)] = []
        for cause in DeadLetterCause.allCases {
            let filter = DeadLetterFilter(owner: .app(caller.app), causes: [cause])
            let count = try await store.query(Statements.countDeadLetters(filter, limit: Self.countLimit)).first
            counts.append((cause, count ?? 0))
        }
        return counts
    }

    private func respond(toReplay filter: DeadLetterFilter, limit: Int, _ call: APICall) async throws -> Response {
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

extension APICall {
    /// The id in the path.
    func letterID() throws(Problem) -> Int64 {
        let text = try path("letter")
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let id = Int64(text) else { throw .notFound }
        return id
    }

    /// The cause of the query; empty for any.
    func deadLetterCauses() throws(Problem) -> [DeadLetterCause] {
        guard let name = text("cause") else { return [] }
        guard let cause = DeadLetterCause(rawValue: name) else {
            throw .parameter(
                "cause", detail: "expected one of \(DeadLetterCause.allCases.map(\.rawValue).joined(separator: ", "))")
        }
        return [cause]
    }
}
