// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Rules of HTTP/1.1 on a connection", .tags(.api), .timeLimit(.patience))
struct HTTPRulesTests {
    /// A response as received on a connection.
    private struct Answer {
        let status: Int
        let headers: String
        let body: String

        var isProblem: Bool { headers.contains("content-type: application/problem+json") }
    }

    /// Splits received bytes into responses.
    ///
    /// - Parameter methods: Methods of the requests, since the response to `HEAD` has no body.
    private static func answers(_ text: String, to methods: [String]) throws -> [Answer] {
        var rest = Array(text.utf8)[...]
        var answers: [Answer] = []
        for method in methods {
            let end = try #require(
                rest.indices.first { rest[$0...].starts(with: "\r\n\r\n".utf8) }, "no response to \(method): \(text)")
            let head = String(decoding: rest[..<end], as: UTF8.self).lowercased()
            rest = rest[(end + 4)...]
            let status = try #require(head.split(separator: " ").dropFirst().first.flatMap { Int($0) }, "\(text)")
            let length = head.split(separator: "\r\n").first { $0.hasPrefix("content-length:") }
                .flatMap { Int($0.dropFirst(15).drop { $0 == " " }) }
            let hasBody = method != "HEAD" && status >= 200 && status != 204 && status != 304
            let body = hasBody ? rest.prefix(length ?? 0) : []
            rest = rest.dropFirst(body.count)
            answers.append(Answer(status: status, headers: head, body: String(decoding: body, as: UTF8.self)))
        }
        #expect(rest.isEmpty, "bytes behind the last response: \(String(decoding: rest, as: UTF8.self))")
        return answers
    }

    private static func withAPIAndHealth(
        _ body: @Sendable (_ api: Int, _ health: Int, _ token: String) async throws -> Void
    ) async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 1, content: "\"\(String(repeating: "x", count: 3_000))\"")
            try await withServedAPI(store, configuration: APIConfiguration.test()) { api, tokens in
                try await withPort { onListening in
                    try await HealthService(
                        host: "127.0.0.1", port: 0, readiness: Readiness(checks: []), liveness: [],
                        logger: quiet, onListening: onListening
                    ).run()
                } _: { health in
                    try await body(api, health, try await tokens.token())
                }
            }
        }
    }

    /// Sends requests, the last of which closes the connection, and returns the received bytes.
    private static func exchange(_ port: Int, _ requests: [String]) async throws -> String {
        let connection = try await RawConnection.open(port)
        // The server may close the connection before all requests are sent.
        for request in requests { try? await connection.send(request) }
        try await eventually("the connection is closed; so far: \(connection.text)") { !connection.isOpen }
        return connection.text
    }

    private static func request(_ method: String, _ path: String, _ headers: String = "") -> String {
        "\(method) \(path) HTTP/1.1\r\nHost: a\r\n\(headers)\r\n"
    }

    @Test("HEAD is answered like GET without a body, and the connection stays in step")
    func head() async throws {
        try await Self.withAPIAndHealth { api, health, token in
            let authorized = "Authorization: Bearer \(token)\r\nAccept-Encoding: gzip\r\n"
            let timeline = "\(TestAPI.base)/widgets/w1/timeline"
            let paths: [(port: Int, path: String, headers: String, status: Int)] = [
                (api, "/health/live", "", 200), (api, "/health/ready", "", 200),
                (api, "\(TestAPI.base)/widgets", authorized, 200), (api, timeline, authorized, 200),
                (api, timeline, authorized + "If-None-Match: *\r\n", 304), (api, timeline, "", 401),
                (api, "\(TestAPI.base)/widgets/none", authorized, 404), (api, "/nothing", "", 404),
                (api, "\(TestAPI.base)/reloads", authorized, 405), (api, "/health//live", "", 400),
                (api, "\(TestAPI.base)/devices/d1/events?for=1", authorized, 200),
                (health, "/health/live", "", 200), (health, "/health/ready", "", 200), (health, "/metrics", "", 200),
                (health, "/nothing", "", 404),
            ]
            for (port, path, headers, status) in paths {
                let text = try await Self.exchange(
                    port,
                    [
                        Self.request("HEAD", path, headers), Self.request("HEAD", path, headers),
                        Self.request("GET", "/health/live", "Connection: close\r\n"),
                    ])
                let answers = try Self.answers(text, to: ["HEAD", "HEAD", "GET"])
                #expect(answers.map(\.status) == [status, status, 200], "\(path): \(text)")
                #expect(answers[2].body.contains("live"))
            }
        }
    }

    @Test("HEAD returns the content length of GET")
    func length() async throws {
        try await Self.withAPIAndHealth { api, _, token in
            let headers = "Authorization: Bearer \(token)\r\nConnection: close\r\n"
            let path = "\(TestAPI.base)/widgets/w1"
            let get = try Self.answers(
                try await Self.exchange(api, [Self.request("GET", path, headers)]), to: ["GET"])[0]
            let head = try Self.answers(
                try await Self.exchange(api, [Self.request("HEAD", path, headers)]), to: ["HEAD"])[0]
            #expect(!get.body.isEmpty)
            #expect(head.headers.contains("content-length: \(get.body.utf8.count)\r\n"), "\(head.headers)")
        }
    }

    @Test(
        "Requests that are not HTTP/1.1, or not implemented, are refused with a problem document",
        arguments: [
            ("GET /health/live HTTP/1.1\r\n\r\n", 400),
            ("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
            ("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
            ("POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n", 501),
            ("POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
            ("GET /health/live HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("FOO /health/live HTTP/1.1\r\nHost: a\r\n\r\n", 501), ("CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 501),
            ("GET /health/live HTTP/1.1\r\nHost: a\r\nB\u{1}d: 1\r\n\r\n", 400),
            ("GET /health/live HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
            ("GET /health/live HTTP/1.1\r\nHost: a\r\nExpect: cake\r\n\r\n", 417),
            (
                "GET /health/live HTTP/1.1\r\nHost: a\r\nX: \(String(repeating: "x", count: 100_000))\r\n\r\n", 431
            ),
        ])
    func refused(request: String, status: Int) async throws {
        try await Self.withAPIAndHealth { api, health, _ in
            for port in [api, health] {
                // The same applies after another request, and later requests are not answered.
                let text = try await Self.exchange(
                    port, [Self.request("GET", "/health/live"), request, Self.request("GET", "/health/live")])
                let answers = try Self.answers(text, to: ["GET", "GET"])
                #expect(answers.map(\.status) == [200, status], "\(text)")
                #expect(answers[1].isProblem && answers[1].headers.contains("connection: close"), "\(text)")
                let document = try JSONValue.parse(answers[1].body)
                #expect(document["status"] == .number(JSONNumber(status)) && document["detail"] != nil)
            }
        }
    }

    @Test("An unsupported method is 405 with Allow at a known path, else 404")
    func methods() async throws {
        try await Self.withAPIAndHealth { api, health, _ in
            let cases: [(port: Int, method: String, path: String, status: Int, allow: String?)] = [
                (api, "POST", "/health/live", 405, "get, head"), (health, "DELETE", "/metrics", 405, "get, head"),
                (api, "POST", "\(TestAPI.base)/widgets/w1", 405, "delete, get, head, put"),
                (api, "PATCH", "\(TestAPI.base)/dead-letters/replay", 405, "post"),
                (api, "PATCH", "\(TestAPI.base)/reloads", 405, "post"), (api, "POST", "/nothing", 404, nil),
                (health, "GET", "/v1/apps/a/widgets", 404, nil),
                (api, "PROPFIND", "/health/live", 405, "get, head"),
                (health, "PURGE", "/metrics", 405, "get, head"), (api, "GET", "//health/live", 400, nil),
                (api, "GET", "/health/live/", 400, nil), (api, "GET", "\(TestAPI.base)//widgets", 400, nil),
            ]
            for (port, method, path, status, allow) in cases {
                let text = try await Self.exchange(
                    port, [Self.request(method, path, "Content-Length: 0\r\nConnection: close\r\n")])
                let answer = try Self.answers(text, to: [method])[0]
                #expect(answer.status == status && answer.isProblem, "\(method) \(path): \(text)")
                #expect(answer.headers.contains("\r\nallow: \(allow ?? "")") == (allow != nil), "\(text)")
                if let allow { #expect((answer.headers + "\r\n").contains("\r\nallow: \(allow)\r\n"), "\(text)") }
            }
        }
    }

    @Test("A client that waits for 100 Continue sends the body only if it is read")
    func expectation() async throws {
        try await Self.withAPIAndHealth { api, _, token in
            func put(_ headers: String) -> String {
                Self.request(
                    "PUT", "\(TestAPI.base)/kinds/K",
                    "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\(headers)")
            }
            let connection = try await RawConnection.open(api)
            try await connection.send(put("Authorization: Bearer \(token)\r\n"))
            try await eventually("100 Continue arrives") {
                connection.text == "HTTP/1.1 100 Continue\r\n\r\n"
            }
            try await connection.send("{}")
            try await connection.send(Self.request("GET", "/health/live", "Connection: close\r\n"))
            try await eventually("the connection is closed") { !connection.isOpen }
            let answers = try Self.answers(connection.text, to: ["PUT", "PUT", "GET"])
            #expect(answers.map(\.status) == [100, 422, 200], "\(connection.text)")

            for (headers, status) in [
                ("", 401), ("Authorization: Bearer \(token)\r\nContent-Encoding: gzip\r\n", 415),
            ] {
                let refused = try Self.answers(try await Self.exchange(api, [put(headers)]), to: ["PUT"])[0]
                #expect(refused.status == status && refused.headers.contains("connection: close"))
            }
        }
    }

    @Test("The connection closes after HTTP/1.0 and after a list of options with Connection: close")
    func closing() async throws {
        try await Self.withAPIAndHealth { api, _, token in
            let old = try await Self.exchange(
                api, ["GET /health/live HTTP/1.0\r\n\r\n", Self.request("GET", "/health/live")])
            let answer = try Self.answers(old, to: ["GET"])[0]
            #expect(answer.status == 200 && answer.headers.contains("connection: close"), "\(old)")
            #expect(!answer.headers.contains("chunked"))
            let stream = try await Self.exchange(
                api,
                ["GET \(TestAPI.base)/devices/d1/events?for=1 HTTP/1.0\r\nAuthorization: Bearer \(token)\r\n\r\n"])
            #expect(!stream.lowercased().contains("chunked") && stream.contains("\r\n\r\nretry: 3000"), "\(stream)")
            for options in ["Keep-Alive, Close", "close, TE", "CLOSE"] {
                let text = try await Self.exchange(
                    api,
                    [
                        Self.request("GET", "/health/live", "Connection: \(options)\r\n"),
                        Self.request("DELETE", "\(TestAPI.base)/widgets/w1"),
                    ])
                #expect(try Self.answers(text, to: ["GET"])[0].status == 200, "\(options): \(text)")
            }
        }
    }

    @Test("A badly framed body is answered with 400 and ends the connection")
    func framing() async throws {
        try await Self.withAPIAndHealth { api, _, token in
            let text = try await Self.exchange(
                api,
                [
                    Self.request(
                        "PUT", "\(TestAPI.base)/kinds/K",
                        "Authorization: Bearer \(token)\r\nTransfer-Encoding: chunked\r\n"), "zzz\r\n{}\r\n0\r\n\r\n",
                ])
            let answers = try Self.answers(text, to: ["PUT"])
            #expect(answers[0].status == 400 && answers[0].isProblem, "\(text)")
        }
    }

    @Test("A token with many groups is accepted, and a longer one is refused for its length")
    func longToken() async throws {
        try await Self.withAPIAndHealth { api, _, _ in
            for (length, status) in [(32_769, 431), (32_768, 401)] {
                let bearer = "Authorization: Bearer \(String(repeating: "x", count: length))\r\nConnection: close\r\n"
                let text = try await Self.exchange(
                    api, [Self.request("GET", "\(TestAPI.base)/widgets", bearer)])
                let answer = try Self.answers(text, to: ["GET"])[0]
                #expect(answer.status == status && answer.isProblem, "\(text)")
                #expect(answer.body.contains("longer than 32768 bytes") == (status == 431))
            }
        }
    }
}
