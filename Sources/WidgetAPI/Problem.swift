import HTTPTypes
import Hummingbird
import NIOCore
import WidgetModel

/// An error answer as RFC 9457 has it. `type` is stable, for programs; `detail` is for people.
struct Problem: Error, HTTPResponseError {
    var status: HTTPResponse.Status
    /// Last part of the type's URI.
    var name: String
    var title: String
    var detail: String
    var headers: HTTPFields = [:]

    func response(from request: Request, context: some RequestContext) -> Response {
        response
    }

    var response: Response {
        let document: JSONValue = [
            "type": .string("urn:freshet:problem:\(name)"), "title": .string(title),
            "status": .number(JSONNumber(status.code)), "detail": .string(detail),
        ]
        var response = document.response(status, contentType: "application/problem+json")
        response.headers.append(contentsOf: headers)
        return response
    }
}

extension Problem {
    static func notFound(_ detail: String) -> Problem {
        Problem(status: .notFound, name: "not-found", title: "Not found", detail: detail)
    }

    static func badRequest(_ detail: String) -> Problem {
        Problem(status: .badRequest, name: "bad-request", title: "Bad request", detail: detail)
    }

    static let unauthorized = Problem(
        status: .unauthorized, name: "unauthorized", title: "Unauthorized",
        detail: "expected the header Authorization: Bearer with the API's token",
        headers: [.wwwAuthenticate: #"Bearer realm="freshet""#])

    static let unavailable = Problem(
        status: .serviceUnavailable, name: "unavailable", title: "Unavailable",
        detail: "the database does not answer; try again", headers: [.retryAfter: "1"])

    static let `internal` = Problem(
        status: .internalServerError, name: "internal", title: "Internal error",
        detail: "the request failed; the log says why")
}

extension JSONValue {
    /// The document as an answer that no cache may keep.
    func response(_ status: HTTPResponse.Status = .ok, contentType: String = "application/json") -> Response {
        Response(
            status: status, headers: [.contentType: contentType, .cacheControl: "no-store"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: encoded)))
    }
}
