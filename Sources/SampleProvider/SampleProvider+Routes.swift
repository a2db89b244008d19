import Hummingbird
import Logging
import NIOCore
import WidgetModel

/// Questions to a provider: three about batches of timelines, two about a configuration.
enum SampleEndpoint: String, CaseIterable, Sendable {
    case timelines, snapshot, placeholder, options, defaults
}

/// A request that is refused, as its answer.
private struct SampleRefusal: Error {
    let status: HTTPResponse.Status
    let code: String
    let message: String
    var pointer: String?

    var response: Response {
        var error: JSONObject = ["code": .string(code), "message": .string(message)]
        error["pointer"] = pointer.map { .string($0) }
        return SampleProvider.respond(status, JSONValue.object(["error": .object(error)]).encoded)
    }
}

extension SampleProvider {
    func router() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        for app in SampleApp.allCases {
            for endpoint in SampleEndpoint.allCases {
                router.post("\(app.rawValue)/\(endpoint.rawValue)") { [self] request, _ in
                    try await answer(request, app: app, endpoint: endpoint)
                }
            }
        }
        router.get("stats") { [counters] _, _ in
            Self.respond(.ok, counters.snapshot.json)
        }
        router.get("stats/timelines/:id") { [counters] _, context in
            guard let id = context.parameters.get("id"), let fetches = counters.fetches(of: id) else {
                return SampleRefusal(status: .notFound, code: "notFetched", message: "never fetched").response
            }
            return Self.respond(.ok, fetches.json(id: id))
        }
        return router
    }

    private func answer(_ request: Request, app: SampleApp, endpoint: SampleEndpoint) async throws -> Response {
        do {
            let body: ByteBuffer
            do {
                body = try await request.body.collect(upTo: Self.maximumRequestBytes)
            } catch is NIOTooManyBytesError {
                throw SampleRefusal(
                    status: .contentTooLarge, code: "tooLarge",
                    message: "the body has more than \(Self.maximumRequestBytes) bytes")
            }
            let bytes = Array(body.readableBytesView)
            try checkSignature(of: request, body: bytes, app: app)
            if app == .load, endpoint == .timelines, let answer = loadTimelines(bytes) { return answer }
            if endpoint == .options || endpoint == .defaults {
                return try await choices(bytes, app: app, endpoint: endpoint)
            }
            let batch: SampleBatch
            do throws(SampleBatch.Malformed) {
                batch = try SampleBatch.parse(bytes, app: app)
            } catch {
                throw SampleRefusal(
                    status: .badRequest, code: "malformed", message: error.message, pointer: error.pointer)
            }
            guard let contents = batch.contents(of: app) else { throw unknownKind(app) }
            if faults.latency > .zero { try await Task.sleep(for: faults.latency) }
            return respond(to: batch, app: app, endpoint: endpoint, contents: contents)
        } catch let refusal as SampleRefusal {
            counters.rejectedRequest()
            return refusal.response
        }
    }

    private func unknownKind(_ app: SampleApp) -> SampleRefusal {
        SampleRefusal(
            status: .notFound, code: "unknownKind",
            message: "\(app.rawValue) has the kinds \(app.kinds.joined(separator: ", "))")
    }

    /// Options of a parameter, or defaults of a kind.
    private func choices(_ bytes: [UInt8], app: SampleApp, endpoint: SampleEndpoint) async throws -> Response {
        let question: SampleQuestion
        do throws(SampleBatch.Malformed) {
            question = try SampleQuestion(bytes)
        } catch {
            throw SampleRefusal(status: .badRequest, code: "malformed", message: error.message, pointer: error.pointer)
        }
        guard let content = app.content(of: question.kind) else { throw unknownKind(app) }
        if faults.latency > .zero { try await Task.sleep(for: faults.latency) }
        counters.otherRequest()
        guard endpoint == .options else { return Self.respond(.ok, defaults(content)) }
        guard let options = options(question, content) else {
            throw SampleRefusal(
                status: .unprocessableContent, code: "unknownParameter", message: "no such parameter",
                pointer: "/parameter")
        }
        return Self.respond(.ok, options)
    }

    private func checkSignature(of request: Request, body: [UInt8], app: SampleApp) throws {
        guard let verifier = verifiers[app] else { return }
        var headers = WebhookVerifier.Headers()
        for field in request.headers {
            switch field.name.canonicalName {
            case "webhook-id": headers.id = field.value
            case "webhook-timestamp": headers.timestamp = field.value
            case "webhook-signature": headers.signature = field.value
            default: break
            }
        }
        do throws(WebhookVerifier.Refusal) {
            try verifier.verify(headers, body: body, now: now())
        } catch {
            throw SampleRefusal(status: .unauthorized, code: "unauthorized", message: error.rawValue)
        }
    }

    private func respond(
        to batch: SampleBatch, app: SampleApp, endpoint: SampleEndpoint, contents: [any SampleContent.Type]
    ) -> Response {
        let time = now()
        switch endpoint {
        case .timelines:
            guard let (bytes, answers) = timelines(batch, contents: contents, at: time) else {
                counters.failedRequest()
                return SampleRefusal(
                    status: .serviceUnavailable, code: "unavailable", message: "a fault that was asked for"
                ).response
            }
            counters.answered(app: app, answers: answers, at: time)
            return Self.respond(.ok, bytes)
        case .snapshot:
            counters.otherRequest()
            return Self.respond(.ok, snapshots(batch, contents: contents, at: time))
        case .placeholder, .options, .defaults:
            counters.otherRequest()
            return Self.respond(.ok, placeholders(batch, contents: contents))
        }
    }

    static func respond(_ status: HTTPResponse.Status, _ bytes: [UInt8]) -> Response {
        Response(
            status: status, headers: [.contentType: "application/json"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }
}

extension SampleStatistics.Fetches {
    /// The response to `GET /stats/timelines/ID`.
    func json(id: String) -> [UInt8] {
        let json: JSONValue = [
            "id": .string(id), "fetches": .count(count), "lastRevision": .count(lastRevision),
            "lastFetchedAt": .time(lastFetchedAt),
        ]
        return json.encoded
    }
}
