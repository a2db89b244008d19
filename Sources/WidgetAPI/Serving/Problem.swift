// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import KafkaClient
import Logging
import NIOCore
import NIOHTTP1
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// An error response (RFC 9457). `type` is stable for programs; `detail` is for people.
struct Problem: Error, HTTPResponseError {
    /// One error in the request.
    struct Item: Hashable, Sendable {
        var detail: String
        /// JSON pointer into the body.
        var pointer: String?
        /// Name of the query or path parameter.
        var parameter: String?
    }

    var status: HTTPResponse.Status
    /// Title, whose words are also the last part of the type's URI.
    var title: String
    var detail: String
    /// All known errors in the request.
    var errors: [Item]
    var headers: HTTPFields

    /// - Parameter title: the status's phrase if nil.
    init(
        _ status: HTTPResponse.Status, _ detail: String, title: String? = nil, errors: [Item] = [],
        headers: HTTPFields = [:]
    ) {
        self.status = status
        let phrase = status.reasonPhrase
        self.title = title ?? phrase.prefix(1) + phrase.dropFirst().lowercased()
        self.detail = detail
        self.errors = errors
        self.headers = headers
    }

    func response(from request: Request, context: some RequestContext) -> Response {
        response
    }

    static let contentType = "application/problem+json"

    var document: JSONValue {
        var object = JSONObject()
        object["type"] = .string("urn:freshet:problem:" + title.lowercased().replacing(" ", with: "-"))
        object["title"] = .string(title)
        object["status"] = .count(status.code)
        object["detail"] = .string(detail)
        if let pointer = errors.first?.pointer { object["pointer"] = .string(pointer) }
        if !errors.isEmpty { object["errors"] = .array(errors.map(\.json)) }
        return .object(object)
    }

    var response: Response {
        var response = Response(document, status, contentType: Self.contentType)
        response.headers.append(contentsOf: headers)
        return response
    }
}

extension Problem.Item {
    fileprivate var json: JSONValue {
        var object = JSONObject()
        object["detail"] = .string(detail)
        if let pointer { object["pointer"] = .string(pointer) }
        if let parameter { object["parameter"] = .string(parameter) }
        return .object(object)
    }
}

extension Problem {
    /// The response for missing objects and for those of another tenant, which must be the same.
    static let notFound = Problem(.notFound, "nothing found for this token")

    static func noRoute(_ path: String) -> Problem {
        Problem(.notFound, "no route at \(Text.printable(path, maximum: 256))")
    }

    static func methodNotAllowed(_ allowed: [String]) -> Problem {
        Problem(
            .methodNotAllowed, "expected \(allowed.joined(separator: ", "))",
            headers: [.allow: allowed.joined(separator: ", ")])
    }

    static func notImplemented(_ method: String) -> Problem {
        Problem(.notImplemented, "\(method) is not implemented")
    }

    /// A path such as `/v1//apps` or `/health/live/`, which a proxy in front may interpret differently.
    static func emptySegment(_ path: String) -> Problem {
        badRequest("the path \(Text.quoted(path)) has an empty segment")
    }

    static func badRequest(_ detail: String, _ errors: [Item] = []) -> Problem {
        Problem(.badRequest, detail, errors: errors)
    }

    /// An invalid query or path parameter.
    static func parameter(_ name: String, detail: String) -> Problem {
        badRequest("\(name): \(detail)", [Item(detail: detail, parameter: name)])
    }

    /// A well-formed body with invalid values.
    static func unprocessable(_ errors: [Item]) -> Problem {
        let first = errors.first?.detail ?? "the body cannot be used"
        let place = errors.first?.pointer.map { $0.isEmpty ? "" : "\($0): " } ?? ""
        let more = errors.count > 1 ? " (and \(errors.count - 1) more)" : ""
        return Problem(.unprocessableContent, place + first + more, title: "Invalid", errors: errors)
    }

    static func unprocessable(_ pointer: String, detail: String) -> Problem {
        unprocessable([Item(detail: detail, pointer: pointer)])
    }

    static let keyReused = Problem(
        .unprocessableContent, "the Idempotency-Key was used for another request within the last hour",
        title: "Key reused")

    static let unknownCursor = unprocessable([Item(detail: "expected the cursor of a page", parameter: "cursor")])

    static func conflict(_ detail: String) -> Problem {
        Problem(.conflict, detail)
    }

    static func forbidden(_ detail: String, headers: HTTPFields = [:]) -> Problem {
        Problem(.forbidden, detail, headers: headers)
    }

    static func tooLarge(_ limit: Int) -> Problem {
        Problem(.contentTooLarge, "the body has more than \(limit) bytes", title: "Too large")
    }

    static let unsupportedMediaType = Problem(.unsupportedMediaType, "expected a body of application/json")

    static let unsupportedEncoding = Problem(
        .unsupportedMediaType, "expected a body without Content-Encoding", headers: [.acceptEncoding: "identity"])

    static let expectationFailed = Problem(
        .expectationFailed, "unsupported expectation; only 100-continue is supported")

    static func headerTooLarge(_ detail: String) -> Problem {
        Problem(.requestHeaderFieldsTooLarge, detail, title: "Header too large")
    }

    static func unauthorized(_ refusal: TokenRefusal) -> Problem {
        if refusal == .tooLong { return .headerTooLarge(refusal.rawValue) }
        let error = refusal == .missing ? "" : #", error="invalid_token", error_description="\#(refusal.rawValue)""#
        return Problem(.unauthorized, refusal.rawValue, headers: [.wwwAuthenticate: #"Bearer realm="freshet""# + error])
    }

    static func insufficientScope(_ scope: TokenScope) -> Problem {
        forbidden(
            "the token lacks the scope \(scope.rawValue)",
            headers: [
                .wwwAuthenticate:
                    #"Bearer realm="freshet", error="insufficient_scope", scope="\#(scope.rawValue)""#
            ])
    }

    /// - Parameter wait: time until the next request is allowed.
    static func tooManyRequests(_ wait: Duration) -> Problem {
        Problem(
            .tooManyRequests, "the token's rate limit is reached",
            headers: [.retryAfter: "\(wait.seconds(roundedUp: 1))"])
    }

    /// - Parameter wait: time until the next attempt is useful.
    static func quotaExceeded(_ quota: Quotas.Name, _ wait: Duration) -> Problem {
        var problem = tooManyRequests(wait)
        guard quota != .requests else { return problem }
        problem.title = "Quota exceeded"
        problem.detail =
            switch quota {
            case .requests, .events, .reloads: "the app has used its quota of \(quota.rawValue) a minute"
            case .connections: "the app or user has used its quota of open polls and streams; end some"
            case .deadLetters: "the app has used its quota of dead letters; replay or discard them, or resume the app"
            }
        return problem
    }

    /// - Parameter wait: time until a token from this address is verified again.
    static func tooManyFailures(_ wait: Duration) -> Problem {
        var problem = tooManyRequests(wait)
        problem.detail = "too many tokens from this address were refused"
        return problem
    }

    /// Closes the connection, since the rest of the body may still arrive.
    static let requestTimeout = Problem(
        .requestTimeout, "the body did not arrive in time", headers: [.connection: "close"])

    static let unavailable = Problem(
        .serviceUnavailable, "the database does not answer; try again", title: "Unavailable",
        headers: [.retryAfter: "1"])

    /// A newer version has written the kind's definition, and its processes can read it.
    static let kindUnreadable = Problem(
        .serviceUnavailable, "this process cannot read the kind's stored definition; try again",
        title: "Kind unreadable", headers: [.retryAfter: "5"])

    static let eventsUnavailable = Problem(
        .serviceUnavailable, "the event could not be published; try again", title: "Unavailable",
        headers: [.retryAfter: "1"])

    static let scheduleNotPlanned = Problem(
        .serviceUnavailable, "the stack's schedule is being planned; try again", title: "Not planned yet",
        headers: [.retryAfter: "2"])

    static let tooManyWaiting = Problem(
        .serviceUnavailable, "too many readers wait for changes; retry later or without waiting",
        title: "Too many waiting",
        headers: [.retryAfter: "5"])

    static let `internal` = Problem(.internalServerError, "the request failed; see the log", title: "Internal")

    /// The problem with a body that cannot be parsed.
    init(parsing error: JSONError) {
        guard error.kind != .numberOutOfRange else {
            self = .unprocessable(error.pointer, detail: error.message)
            return
        }
        self = .badRequest(
            "the body is not JSON: \(error.message) at byte \(error.byteOffset)",
            [Item(detail: error.message, pointer: error.pointer)])
    }

    /// The problem with an event's data.
    init(_ error: EventError) {
        let item = Item(detail: error.message, pointer: error.pointer)
        switch error.code {
        // With a pointer it is the attribute in the body.
        case .unsupportedContentType where error.pointer == nil: self = .unsupportedMediaType
        case .malformedJSON, .invalidUTF8: self = .badRequest("the body is not JSON: \(error.message)", [item])
        default: self = .unprocessable([item])
        }
    }

    /// The problem with all errors of an event's data, or with the one that makes it unreadable.
    init(_ error: EventError, among errors: [EventError]) {
        guard errors.count > 1, errors.contains(error) else {
            self = Problem(error)
            return
        }
        self = .unprocessable(errors.map { Item(detail: $0.message, pointer: $0.pointer) })
    }

    /// The problem with a provider's options.
    private init(_ failure: ProviderFailure) {
        let status: HTTPResponse.Status =
            switch failure.reason {
            case .resting: .serviceUnavailable
            case .timeout: .gatewayTimeout
            default: .badGateway
            }
        self.init(status, "the provider's answer is not available: \(failure.message)", title: "Provider failed")
        headers[.retryAfter] = failure.retryAfter.map { "\($0.seconds(roundedUp: 1))" }
    }

    /// The problem for an error of an operation. Errors of the server are logged, and internal ones are not disclosed.
    init(answering error: any Error, path: String, _ logger: Logger) {
        guard let problem = Problem(explaining: error) else {
            logger.error("an API request failed", metadata: ["path": "\(path)", "error": "\(error)"])
            self = .internal
            return
        }
        if problem.status.code >= 500 {
            logger.warning("the API cannot answer", metadata: ["error": "\(error)"])
        }
        self = problem
    }

    /// The problem for an error of a route; nil for an internal error.
    init?(explaining error: any Error) {
        switch error {
        case let problem as Problem: self = problem
        case let error as EventError: self = Problem(error)
        case let error as PostgresError where error.isRetriable: self = .unavailable
        case let error as KindConflict: self = .conflict("\(Text.quoted(error.kind)) \(error.message)")
        case let error as RotationConflict: self = .conflict("\(error): end it first (DELETE)")
        case let error as ProviderFailure: self = Problem(error)
        case is KafkaError: self = .eventsUnavailable
        case let error as HTTPParserError: self = .badRequest("the body is not framed as HTTP/1.1: \(error)")
        default: return nil
        }
    }
}

extension Response {
    /// An uncached response with a document.
    init(_ document: JSONValue, _ status: HTTPResponse.Status = .ok, contentType: String = "application/json") {
        self.init(json: document.encoded, status, contentType: contentType)
    }

    init(json: [UInt8], _ status: HTTPResponse.Status = .ok, contentType: String = "application/json") {
        self.init(
            status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }

    /// Server-sent events. A client that loses the connection comes back after 3 s.
    init(events: @escaping @concurrent @Sendable (inout any ResponseBodyWriter) async throws -> Void) {
        self.init(
            status: .ok,
            headers: [.contentType: "text/event-stream", .cacheControl: "no-store", .init("X-Accel-Buffering")!: "no"],
            body: ResponseBody { writer in
                try await writer.write(ByteBuffer(string: "retry: 3000\n\n"))
                try await events(&writer)
                try await writer.finish(nil)
            })
    }
}
