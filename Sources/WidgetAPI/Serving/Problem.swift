import HTTPTypes
import Hummingbird
import KafkaClient
import NIOCore
import NIOHTTP1
import PostgresClient
import WidgetEvents
import WidgetModel

/// An error response (RFC 9457). `type` is stable, for programs; `detail` is for people.
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
    /// Last part of the type's URI.
    var name: String
    var title: String
    var detail: String
    /// All errors in the request, where they are known.
    var errors: [Item] = []
    var headers: HTTPFields = [:]

    func response(from request: Request, context: some RequestContext) -> Response {
        response
    }

    static let contentType = "application/problem+json"

    var document: JSONValue {
        var object = JSONObject()
        object["type"] = .string("urn:freshet:problem:\(name)")
        object["title"] = .string(title)
        object["status"] = .number(JSONNumber(status.code))
        object["detail"] = .string(detail)
        if let pointer = errors.first?.pointer { object["pointer"] = .string(pointer) }
        if !errors.isEmpty { object["errors"] = .array(errors.map(\.json)) }
        return .object(object)
    }

    var response: Response {
        var response = document.response(status, contentType: Self.contentType)
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
    /// The answer for missing objects and for those of another tenant, which must not be told apart.
    static let notFound = Problem(
        status: .notFound, name: "not-found", title: "Not found", detail: "nothing found for this token")

    static func noRoute(_ path: String) -> Problem {
        Problem(
            status: .notFound, name: "not-found", title: "Not found",
            detail: "no route at \(Text.printable(path, maximum: 256))")
    }

    static func methodNotAllowed(_ allowed: [String]) -> Problem {
        Problem(
            status: .methodNotAllowed, name: "method-not-allowed", title: "Method not allowed",
            detail: "expected \(allowed.joined(separator: ", "))",
            headers: [.allow: allowed.joined(separator: ", ")])
    }

    static func notImplemented(_ method: String) -> Problem {
        Problem(
            status: .notImplemented, name: "not-implemented", title: "Not implemented",
            detail: "\(method) is not implemented")
    }

    /// A path such as `/v1//apps` or `/health/live/`, which a proxy in front may read as another one.
    static func emptySegment(_ path: String) -> Problem {
        badRequest("the path \(Text.quoted(path)) has an empty segment")
    }

    static func badRequest(_ detail: String, _ errors: [Item] = []) -> Problem {
        Problem(status: .badRequest, name: "bad-request", title: "Bad request", detail: detail, errors: errors)
    }

    /// An invalid query or path parameter.
    static func parameter(_ name: String, _ detail: String) -> Problem {
        badRequest("\(name): \(detail)", [Item(detail: detail, parameter: name)])
    }

    /// A well-formed body with invalid values.
    static func unprocessable(_ errors: [Item]) -> Problem {
        let first = errors.first?.detail ?? "the body cannot be used"
        let place = errors.first?.pointer.map { $0.isEmpty ? "" : "\($0): " } ?? ""
        let more = errors.count > 1 ? " (and \(errors.count - 1) more)" : ""
        return Problem(
            status: .unprocessableContent, name: "invalid", title: "Invalid request", detail: place + first + more,
            errors: errors)
    }

    static func unprocessable(_ pointer: String, _ detail: String) -> Problem {
        unprocessable([Item(detail: detail, pointer: pointer)])
    }

    static func unprocessable(_ errors: ModelErrors) -> Problem {
        unprocessable(errors.errors.map { Item(detail: $0.message, pointer: $0.pointer) })
    }

    static let unknownCursor = unprocessable([
        Item(detail: "expected the cursor of a page", parameter: "cursor")
    ])

    static func conflict(_ detail: String) -> Problem {
        Problem(status: .conflict, name: "conflict", title: "Conflict", detail: detail)
    }

    static func forbidden(_ detail: String, headers: HTTPFields = [:]) -> Problem {
        Problem(status: .forbidden, name: "forbidden", title: "Forbidden", detail: detail, headers: headers)
    }

    static func tooLarge(_ limit: Int) -> Problem {
        Problem(
            status: .contentTooLarge, name: "too-large", title: "Too large",
            detail: "the body has more than \(limit) bytes")
    }

    static let unsupportedMediaType = Problem(
        status: .unsupportedMediaType, name: "unsupported-media-type", title: "Unsupported media type",
        detail: "expected a body of application/json")

    static let unsupportedEncoding = Problem(
        status: .unsupportedMediaType, name: "unsupported-media-type", title: "Unsupported media type",
        detail: "expected a body without Content-Encoding", headers: [.acceptEncoding: "identity"])

    static let expectationFailed = Problem(
        status: .expectationFailed, name: "expectation-failed", title: "Expectation failed",
        detail: "expected no expectation but 100-continue")

    static func headerTooLarge(_ detail: String) -> Problem {
        Problem(
            status: .requestHeaderFieldsTooLarge, name: "header-too-large", title: "Request header fields too large",
            detail: detail)
    }

    static func unauthorized(_ refusal: TokenRefusal) -> Problem {
        if refusal == .tooLong { return .headerTooLarge(refusal.rawValue) }
        let error = refusal == .missing ? "" : #", error="invalid_token", error_description="\#(refusal.rawValue)""#
        return Problem(
            status: .unauthorized, name: "unauthorized", title: "Unauthorized", detail: refusal.rawValue,
            headers: [.wwwAuthenticate: #"Bearer realm="freshet""# + error])
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
        let seconds = max(1, wait.components.seconds + (wait.components.attoseconds > 0 ? 1 : 0))
        return Problem(
            status: .tooManyRequests, name: "too-many-requests", title: "Too many requests",
            detail: "the token's rate limit is reached", headers: [.retryAfter: "\(seconds)"])
    }

    /// - Parameter wait: time until a token from this address is verified again.
    static func tooManyFailures(_ wait: Duration) -> Problem {
        var problem = tooManyRequests(wait)
        problem.detail = "too many tokens from this address were refused"
        return problem
    }

    /// Closes the connection, since the rest of the body may still arrive.
    static let requestTimeout = Problem(
        status: .requestTimeout, name: "request-timeout", title: "Request timeout",
        detail: "the body did not arrive in time", headers: [.connection: "close"])

    static let unavailable = Problem(
        status: .serviceUnavailable, name: "unavailable", title: "Unavailable",
        detail: "the database does not answer; try again", headers: [.retryAfter: "1"])

    static let eventsUnavailable = Problem(
        status: .serviceUnavailable, name: "unavailable", title: "Unavailable",
        detail: "the event could not be published; try again", headers: [.retryAfter: "1"])

    static let tooManyWaiting = Problem(
        status: .serviceUnavailable, name: "too-many-waiting", title: "Unavailable",
        detail: "too many readers wait for changes; retry later or without waiting",
        headers: [.retryAfter: "5"])

    static let `internal` = Problem(
        status: .internalServerError, name: "internal", title: "Internal error",
        detail: "the request failed; see the log")

    /// The problem with a body that cannot be parsed.
    init(parsing error: JSONError) {
        guard error.kind != .numberOutOfRange else {
            self = .unprocessable(error.pointer, error.message)
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

    /// The problem for an error of a route; nil for an internal error.
    init?(explaining error: any Error) {
        switch error {
        case let problem as Problem: self = problem
        case let error as EventError: self = Problem(error)
        case let error as ModelErrors: self = .unprocessable(error)
        case let error as PostgresError where error.isRetriable: self = .unavailable
        case is KafkaError: self = .eventsUnavailable
        case let error as HTTPParserError: self = .badRequest("the body is not framed as HTTP/1.1: \(error)")
        default: return nil
        }
    }
}

extension JSONValue {
    /// A response with the document, for no cache to keep.
    func response(_ status: HTTPResponse.Status = .ok, contentType: String = "application/json") -> Response {
        Response(
            status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: encoded)))
    }
}

extension Response {
    /// A response with encoded JSON.
    init(json: [UInt8]) {
        self.init(
            status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: json)))
    }
}
