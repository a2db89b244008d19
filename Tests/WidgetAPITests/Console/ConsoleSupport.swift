// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

extension ConsoleConfiguration {
    static func test(_ change: (inout ConsoleConfiguration) -> Void = { _ in }) throws -> ConsoleConfiguration {
        let secret = String(repeating: "A", count: 43) + "="
        var configuration = ConsoleConfiguration(key: try #require(ConsoleKey(base64: secret)))
        change(&configuration)
        return configuration
    }
}

/// A browser without scripts: it keeps cookies and reads the tokens of forms.
final class ConsoleClient {
    let api: TestAPI
    /// Cookies as `name=value`, by name.
    var cookies: [String: String] = [:]
    /// The session's cookie.
    var session: String? { cookies["freshet-console"] }

    init(_ api: TestAPI) { self.api = api }

    func get(_ path: String, headers: HTTPFields = [:]) async throws -> TestAPI.Answer {
        try await send(.get, path, nil, headers)
    }

    /// Sends `fields` in a form with the token of the page's form.
    ///
    /// - Parameter page: Page with the form; nil sends no token.
    func post(
        _ path: String, from page: String?, _ fields: [String: String] = [:], headers: HTTPFields = [:]
    ) async throws -> TestAPI.Answer {
        var fields = fields
        if let page { fields["csrf"] = try Self.formToken(in: try await get(page, headers: headers).text) }
        return try await send(.post, path, fields, headers)
    }

    func signIn(_ token: String, next: String? = nil, headers: HTTPFields = [:]) async throws -> TestAPI.Answer {
        var fields = ["token": token]
        if let next { fields["next"] = next }
        return try await post("/console/sign-in", from: "/console/sign-in", fields, headers: headers)
    }

    static func formToken(in html: String) throws -> String {
        let start = try #require(html.firstRange(of: "name=\"csrf\" value=\"")?.upperBound)
        return String(html[start...].prefix { $0 != "\"" })
    }

    private func send(
        _ method: HTTPRequest.Method, _ path: String, _ fields: [String: String]?, _ headers: HTTPFields
    ) async throws -> TestAPI.Answer {
        var headers = headers
        headers[.cookie] = cookies.isEmpty ? nil : cookies.values.sorted().joined(separator: "; ")
        if fields != nil { headers[.contentType] = "application/x-www-form-urlencoded" }
        let raw = fields.map { fields in
            fields.map { "\($0)=\(Text.percentEncoded($1))" }.joined(separator: "&")
        }
        let answer = try await api.ask(method, path, as: .nobody, raw: raw, headers: headers)
        if let set = answer.headers[.setCookie] {
            let pair = String(set.prefix { $0 != ";" })
            cookies[String(pair.prefix { $0 != "=" })] = pair.hasSuffix("=") ? nil : pair
        }
        return answer
    }
}

extension TestAPI {
    static let viewerScopes: [TokenScope] = [.widgetsRead, .operateRead]

    func viewer() async throws -> String { try await tokens.token(scopes: Self.viewerScopes) }
}

extension TestStore {
    /// Stores an event as a dead letter.
    func keepLetter(
        _ offset: Int64, app: String = TestKinds.app, error: String = "no such kind", pointer: String? = nil,
        key: String? = nil, kind: String = "Purchases"
    ) async throws {
        let data: JSONValue = ["app": .string(app), "audience": ["user": "u1"], "kinds": [.string(kind)]]
        let event: JSONValue = [
            "specversion": "1.0", "id": .string("e\(offset)"), "source": "/t", "type": "freshet.push.received.v1",
            "data": data,
        ]
        let letter = DeadLetter(
            topic: "freshet.pushes", partition: 0, offset: offset, app: app, code: "unknownKind", error: error,
            pointer: pointer, messageTime: 1, key: key.map { Array($0.utf8) },
            headers: [(name: "content-type", value: Array("application/cloudevents+json".utf8))],
            payload: event.encoded)
        _ = try await store.pool.execute(.insertDeadLetter(letter))
    }

    func waitingLetters() async throws -> Int {
        try await integer("SELECT count(*) FROM dead_letter WHERE replayed_at IS NULL AND discarded_at IS NULL")
    }
}
