// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import Waiting
import WidgetModel

/// A bearer who uses the API, by a request or by a page of the console.
struct Caller: Sendable {
    let principal: Principal
    /// The bearer's token, which is verified again during long requests.
    let token: [UInt8]
    let check: AccessCheck

    var app: String { principal.app }
    var quotas: Quotas { check.quotas }

    /// The user that the bearer is limited to; nil for the whole app.
    var user: String? { principal.user }

    /// Whether the bearer sees whole definitions of kinds; others see the gallery's part.
    var seesDefinitions: Bool { user == nil && (principal.has(.kindsWrite) || principal.has(.operateRead)) }

    /// Checks that the token has not expired and that its key is still current. Long requests call it repeatedly.
    func checkToken() async throws(Problem) {
        do throws(TokenRefusal) {
            _ = try await check.verifier.principal(token: token)
        } catch {
            throw .unauthorized(error)
        }
    }

    /// Checks that the bearer may know whether a user exists.
    func checkSight(of user: String) throws(Problem) {
        if let own = self.user, !Text.equal(own, user) { throw .notFound }
    }

    /// Counts the call as several requests.
    func count(requests: Int) throws(Problem) {
        try quotas.take(.requests, requests - 1, least: 0, for: principal)
    }
}

/// A request of a caller, and the reading of its path, query and body.
struct APICall: Sendable {
    /// Largest body of a request, in bytes.
    static let maximumBodyBytes = 262_144

    let request: Request
    let context: APIContext
    let caller: Caller
    /// Parameters of the query, or the fields of a form of the console, percent-decoded.
    var query: [(name: String, value: String)] = []

    var app: String { caller.app }
    var user: String? { caller.user }

    // MARK: Path

    /// An id in the path.
    func path(_ name: String, maximumBytes: Int = Text.maximumIdentifierBytes) throws(Problem) -> String {
        guard let raw = context.parameters.get(name), let text = raw.removingPercentEncoding else {
            throw .parameter(name, detail: "is not percent-encoded UTF-8")
        }
        if let problem = Text.identifierProblem(text, maximumBytes: maximumBytes) {
            throw .parameter(name, detail: problem)
        }
        return text
    }

    // MARK: Query

    /// The parameters of a query or a form, percent-decoded.
    static func query(_ text: String) throws(Problem) -> [(name: String, value: String)] {
        var query: [(name: String, value: String)] = []
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let texts = parts.map { $0.replacing("+", with: " ").removingPercentEncoding }
            guard let name = texts[0], let value = texts.count > 1 ? texts[1] : "" else {
                throw .badRequest("the query is not percent-encoded UTF-8")
            }
            let shown = Text.printable(name, maximum: 64)
            if query.contains(where: { Text.equal($0.name, name) }) {
                throw .parameter(shown, detail: "is given twice")
            }
            query.append((name, value))
        }
        return query
    }

    /// Reads the query, which may have parameters of these names.
    mutating func readQuery(allowing names: [String]) throws(Problem) {
        query = try Self.query(request.uri.query ?? "")
        // Misspelt names are not ignored.
        for (name, _) in query where !names.contains(where: { Text.equal($0, name) }) {
            throw .parameter(
                Text.printable(name, maximum: 64),
                detail: names.isEmpty ? "expected no parameters" : "expected one of \(names.joined(separator: ", "))")
        }
    }

    func text(_ name: String) -> String? {
        query.first { Text.equal($0.name, name) }?.value
    }

    /// An identifier parameter.
    func identifier(_ name: String, maximumBytes: Int = Text.maximumIdentifierBytes) throws(Problem) -> String? {
        guard let text = text(name) else { return nil }
        if let problem = Text.identifierProblem(text, maximumBytes: maximumBytes) {
            throw .parameter(name, detail: problem)
        }
        return text
    }

    func integer(_ name: String, in range: ClosedRange<Int>, default standard: Int) throws(Problem) -> Int {
        guard let text = text(name) else { return standard }
        // `Int` would also accept "+1".
        guard text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = Int(text), range.contains(number)
        else {
            throw .parameter(name, detail: "expected a whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A parameter that names a case.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String, of type: Choice.Type
    ) throws(Problem) -> Choice? {
        guard let text = text(name) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            let names = type.allCases.map(\.rawValue).joined(separator: ", ")
            throw .parameter(name, detail: "expected one of \(names)")
        }
        return choice
    }

    /// The bearer as the operator of an action, with the parameter `reason`.
    func operatorNote() throws(Problem) -> OperatorNote {
        let reason = text("reason")
        if let problem = reason.flatMap(OperatorNote.reasonProblem) { throw .parameter("reason", detail: problem) }
        return OperatorNote(by: caller.principal.operatorName, reason: reason)
    }

    func flag(_ name: String) throws(Problem) -> Bool {
        switch text(name) {
        case nil, "false"?: false
        case "true"?: true
        default: throw .parameter(name, detail: "expected true or false")
        }
    }

    func time(_ name: String) throws(Problem) -> Timestamp? {
        guard let text = text(name) else { return nil }
        guard let time = Timestamp(rfc3339: text) else {
            throw .parameter(name, detail: "expected an RFC 3339 date-time such as 2026-01-31T08:00:00Z")
        }
        return time
    }

    /// Id of the last element of the page before, which is opaque to callers.
    func cursor() throws(Problem) -> String? {
        guard let text = text("cursor") else { return nil }
        guard let bytes = [UInt8](base64URL: text), let id = String(validating: bytes, as: UTF8.self),
            !id.isEmpty, id.utf8.count <= 256, !id.utf8.contains(0)
        else { throw .unknownCursor }
        return id
    }

    /// Cursor of the page after one of `limit` elements; nil after the last page.
    static func cursor<Element>(after page: [Element], limit: Int, _ id: (Element) -> String) -> String? {
        page.count == limit ? page.last.map { String(base64URL: id($0).utf8) } : nil
    }

    // MARK: Body

    /// The whole body, if it arrives in time.
    static func collect(
        _ request: Request, _ context: APIContext, upTo limit: Int, within time: Duration
    ) async throws -> ByteBuffer {
        if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > limit {
            throw Problem.tooLarge(limit)
        }
        if request.headers[.expect] != nil { context.wantBody() }
        do {
            let body = try await withTimeLimit(time) { try await request.body.collect(upTo: limit) }
            guard let body else { throw Problem.requestTimeout }
            return body
        } catch is NIOTooManyBytesError {
            throw Problem.tooLarge(limit)
        }
    }

    /// The media type of the body, without parameters.
    var mediaType: String? {
        request.headers[.contentType].map { $0.prefix { $0 != ";" }.lowercased().filter { $0 != " " } }
    }

    /// The body, which must be JSON by its media type.
    func bytes() async throws -> [UInt8] {
        if let type = mediaType {
            guard type == "application/json" || type.hasSuffix("+json") else { throw Problem.unsupportedMediaType }
        }
        if let encoding = request.headers[.contentEncoding], encoding.lowercased() != "identity" {
            throw Problem.unsupportedEncoding
        }
        let buffer = try await Self.collect(
            request, context, upTo: Self.maximumBodyBytes, within: caller.check.receiveTime)
        guard buffer.readableBytes > 0 else { throw Problem.badRequest("expected a body of application/json") }
        return Array(buffer.readableBytesView)
    }

    /// The body as JSON.
    func json() async throws -> JSONValue {
        let bytes = try await bytes()
        do throws(JSONError) {
            return try JSONValue.parse(bytes)
        } catch {
            throw Problem(parsing: error)
        }
    }

    /// The body as a JSON object.
    func body() async throws -> JSONObject {
        let value = try await json()
        guard case .object(let object) = value else {
            throw Problem.unprocessable("", detail: "expected an object, found \(value.kind.name)")
        }
        return object
    }
}
