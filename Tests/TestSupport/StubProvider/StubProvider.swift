// SPDX-License-Identifier: Apache-2.0

import Hummingbird
package import JSON
import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
package import WidgetModel

/// A timeline provider over HTTP with scripted answers that records its requests.
package final class StubProvider: Sendable {
    /// A recorded request.
    package struct Request: Sendable {
        /// Value of the request, or of its first item.
        package let kind: String
        /// Values of the items.
        package let kinds: [String]
        /// Requested timelines, as JSON objects.
        package let items: [JSONValue]
        package let ids: [TimelineID]
        package let headers: [String: String]
        package let body: [UInt8]
    }

    /// A scripted answer.
    package enum Answer: Sendable {
        /// Status 200 and JSON with these elements of `timelines`.
        case timelines([JSONValue])
        /// Like ``timelines``, for another list such as `snapshots`.
        case list(String, [JSONValue])
        /// Status 200 with these bytes.
        case body([UInt8], contentType: String = "application/json")
        case status(Int, headers: [String: String] = [:])
        /// Status 200 and this many bytes of white space, without `content-length`.
        case stream(bytes: Int)
    }

    package typealias Script = @Sendable (Request) async throws -> Answer

    private struct State {
        var scripts: [ProviderEndpoint: Script] = [.timelines: { .timelines($0.ids.map { .stubTimeline($0) }) }]
        var requests: [ProviderEndpoint: [Request]] = [:]
    }

    private let state = Mutex(State())
    /// Number of requests for timelines.
    package let received = Tally()
    /// Number of other requests.
    package let receivedOthers = Tally()
    private let listening = Tally()
    private let port = Mutex(0)
    /// Opened at the end, which releases answers that a script holds back.
    fileprivate let closing = Gate()

    fileprivate init() {}

    /// URL to register for a kind.
    package var url: String { "http://127.0.0.1:\(port.withLock { $0 })/widgets" }

    /// Recorded requests for timelines.
    package var requests: [Request] { requests(to: .timelines) }

    package func requests(to endpoint: ProviderEndpoint) -> [Request] {
        state.withLock { $0.requests[endpoint] ?? [] }
    }

    /// Identities of all requested timelines, with repetitions.
    package var requestedIDs: [TimelineID] { requests.flatMap(\.ids) }

    /// Sets the script for subsequent requests. The initial script answers every request for a timeline; a new provider
    /// has no other endpoints.
    package func respond(to endpoint: ProviderEndpoint = .timelines, _ script: @escaping Script) {
        state.withLock { $0.scripts[endpoint] = script }
    }

    private func answer(_ request: Request, _ endpoint: ProviderEndpoint) async throws -> Answer {
        let script = state.withLock { state in
            state.requests[endpoint, default: []].append(request)
            return state.scripts[endpoint] ?? { _ in .status(404) }
        }
        if endpoint == .timelines { received.add() } else { receivedOthers.add() }
        return try await withThrowingTaskGroup(of: Answer.self) { group in
            group.addTask { try await script(request) }
            group.addTask {
                try await self.closing.pass()
                return .status(503)
            }
            defer { group.cancelAll() }
            return try await group.next() ?? .status(503)
        }
    }

    fileprivate func application() -> some ApplicationProtocol {
        let router = Router()
        // Two paths of the same provider.
        for (base, endpoint) in ProviderEndpoint.allCases.flatMap({ [("/widgets", $0), ("/others", $0)] }) {
            router.post("\(base)\(endpoint.path)") { [self] request, _ in
                let buffer = try await request.body.collect(upTo: 64 << 20)
                let headers = Dictionary(
                    request.headers.map { ($0.name.canonicalName, $0.value) }, uniquingKeysWith: { $1 })
                return try await answer(Request(body: Array(buffer.readableBytesView), headers: headers), endpoint)
                    .response()
            }
        }
        return Application(
            router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { [self] channel in
                port.withLock { $0 = channel.localAddress?.port ?? 0 }
                listening.add()
            },
            logger: .stub)
    }

    fileprivate func listens() async throws {
        try await listening.reaches(1)
    }
}

extension StubProvider.Request {
    package init(body: [UInt8], headers: [String: String]) throws {
        let document = try JSONValue.parse(body)
        let kind = document["kind"]?.stringValue
        // Requests about configurations name a kind and webhooks list devices; neither has `requests`.
        let isOther = kind != nil || document["devices"] != nil
        guard let items = document["requests"]?.arrayValue ?? (isOther ? [] : nil) else {
            throw HTTPError(.badRequest)
        }
        kinds = items.compactMap { $0["kind"]?.stringValue ?? kind }
        guard kinds.count == items.count else { throw HTTPError(.badRequest) }
        self.kind = kind ?? kinds.first ?? ""
        self.items = items
        ids = items.compactMap { $0["id"]?.stringValue.flatMap { TimelineID($0) } }
        self.headers = headers
        self.body = body
    }
}

extension StubProvider.Answer {
    func response() -> Response {
        switch self {
        case .timelines(let timelines):
            return Self.list("timelines", timelines).response()
        case .list(let name, let elements):
            var document = JSONObject()
            document[name] = .array(elements)
            return Self.response(JSONValue.object(document).encoded, "application/json")
        case .body(let bytes, let contentType):
            return Self.response(bytes, contentType)
        case .status(let code, let headers):
            var fields = HTTPFields()
            for (name, value) in headers {
                if let name = HTTPFields.Element.Name(name) { fields[name] = value }
            }
            return Response(status: .init(code: code), headers: fields)
        case .stream(let bytes):
            return Response(
                status: .ok, headers: [.contentType: "application/json"],
                body: ResponseBody { writer in
                    let chunk = ByteBuffer(repeating: UInt8(ascii: " "), count: 65_536)
                    for _ in 0..<(bytes / 65_536 + 1) { try await writer.write(chunk) }
                    try await writer.finish(nil)
                })
        }
    }

    private static func response(_ bytes: [UInt8], _ contentType: String) -> Response {
        Response(
            status: .ok, headers: [.contentType: contentType], body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }
}

extension JSONValue {
    /// Returns a provider's answer for a timeline, with one entry.
    ///
    /// - Parameter policy: `"atEnd"`, `"never"`, or an object with `after`.
    package static func stubTimeline(
        _ id: TimelineID, content: JSONValue = ["text": "fresh"], date: String = "2026-01-01T00:00:00Z",
        policy: JSONValue = "never"
    ) -> JSONValue {
        [
            "id": .string(id.description), "policy": policy,
            "entries": [["date": .string(date), "content": content]],
        ]
    }

    /// Returns a provider's answer for a snapshot.
    package static func stubSnapshot(
        _ id: TimelineID, content: JSONValue = ["text": "at once"], date: String = "2026-01-01T00:00:00Z"
    ) -> JSONValue {
        ["id": .string(id.description), "entry": ["date": .string(date), "content": content]]
    }

    /// Returns a provider's error for one timeline.
    package static func stubError(_ id: TimelineID, code: String, retryAfter: Int? = nil) -> JSONValue {
        var error = JSONObject()
        error["code"] = .string(code)
        error["message"] = "as the test says"
        if let retryAfter { error["retryAfter"] = .number(JSONNumber(retryAfter)) }
        return ["id": .string(id.description), "error": .object(error)]
    }
}

extension Logger {
    fileprivate static let stub = Logger(label: "provider") { _ in SwiftLogNoOpLogHandler() }
}

/// Starts a provider on a free port and passes it to the closure; releases answers that are still held back afterwards.
package func withStubProvider<Value: Sendable>(
    _ body: (StubProvider) async throws -> Value
) async throws -> Value {
    let provider = StubProvider()
    let server = ServiceGroup(services: [provider.application()], logger: .stub)
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await server.run() }
        let result: Result<Value, any Error>
        do {
            try await provider.listens()
            result = .success(try await body(provider))
        } catch {
            result = .failure(error)
        }
        // Cancellation would drop connections in the middle of an answer.
        provider.closing.open()
        await server.triggerGracefulShutdown()
        try await group.waitForAll()
        return try result.get()
    }
}
