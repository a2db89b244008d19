// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Compression of responses", .tags(.api), .timeLimit(.patience))
struct CompressionTests {
    /// Runs the API with a long timeline of the widget `w1`.
    private static func withLongTimeline(_ body: @Sendable (_ port: Int, _ token: String) async throws -> Void)
        async throws
    {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 1, content: "\"\(String(repeating: "x", count: 5_000))\"")
            try await withServedAPI(store, configuration: APIConfiguration.test()) { port, tokens in
                try await body(port, try await tokens.token())
            }
        }
    }

    private static func get(_ path: String, _ token: String, _ headers: String) -> String {
        "GET \(path) HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(token)\r\n\(headers)\r\n"
    }

    /// Returns the headers of the only answer on a connection in lower case, and the length of its body.
    private static func ask(_ port: Int, _ request: String) async throws -> (headers: String, length: Int) {
        let connection = try await RawConnection.open(port)
        try await connection.send(request)
        try await eventually("the answer is complete") { !connection.isOpen }
        let bytes = connection.bytes
        let end = try #require(bytes.indices.first { bytes[$0...].starts(with: "\r\n\r\n".utf8) })
        return (String(decoding: bytes[..<end], as: UTF8.self).lowercased(), bytes.count - end - 4)
    }

    @Test("A long response is compressed for clients that accept it and has a content length")
    func long() async throws {
        try await Self.withLongTimeline { port, token in
            let path = "\(TestAPI.base)/widgets/w1/timeline"
            for (accepted, encoding) in [
                ("gzip", "gzip"), ("br, gzip;q=0.5", "gzip"), ("*", "gzip"), ("gzip, deflate", "deflate"),
                ("gzip;q=0", nil), ("br", nil), ("", nil),
            ] {
                let request = Self.get(path, token, "Accept-Encoding: \(accepted)\r\nConnection: close\r\n")
                let (headers, length) = try await Self.ask(port, request)
                #expect(headers.hasPrefix("http/1.1 200") && headers.contains("vary: accept-encoding"), "\(headers)")
                #expect(headers.contains("content-encoding: \(encoding ?? "")") == (encoding != nil), "\(headers)")
                #expect((headers + "\r\n").contains("content-length: \(length)\r\n"), "\(headers)")
                #expect((length < 2_000) == (encoding != nil), "\(accepted)")
                #expect(headers.contains("etag: w/\"00000000-0000-0000-0000-000000000001\""), "\(headers)")
            }
        }
    }

    @Test("Short, empty and HEAD responses and streams are not compressed")
    func others() async throws {
        try await Self.withLongTimeline { port, token in
            let accepts = "Accept-Encoding: gzip\r\nConnection: close\r\n"
            let tag = "If-None-Match: W/\"00000000-0000-0000-0000-000000000001\"\r\n"
            let path = "\(TestAPI.base)/widgets/w1/timeline"
            let requests = [
                ("200", Self.get("\(TestAPI.base)/widgets", token, accepts)),
                ("304", Self.get(path, token, tag + accepts)),
                ("404", Self.get("/v1/nothing", token, accepts)),
                ("401", "HEAD \(path) HTTP/1.1\r\nHost: a\r\n\(accepts)\r\n"),
                ("200", "HEAD" + Self.get(path, token, accepts).dropFirst(3)),
                ("200", Self.get("\(TestAPI.base)/devices/d1/events?for=1", token, accepts)),
            ]
            for (status, request) in requests {
                let headers = try await Self.ask(port, request).headers
                #expect(headers.hasPrefix("http/1.1 \(status)") && !headers.contains("content-encoding"), "\(headers)")
            }
        }
    }

    @Test("A request that cannot be parsed is answered with 501 or 400, also behind others, and the server continues")
    func unparsable() async throws {
        try await Self.withLongTimeline { port, token in
            let path = "\(TestAPI.base)/widgets/w1/timeline"
            let good = Self.get(path, token, "Accept-Encoding: gzip\r\n")
            for (requests, count, status) in [
                (["\u{1}\r\n\r\n"], 0, 501), ([good, "nonsense\r\n\r\n"], 1, 501),
                ([good, "GET / HTTP/1.1\r\nHost: a\r\nB\u{1}: x\r\n\r\n"], 1, 400),
            ] {
                let connection = try await RawConnection.open(port)
                for (index, request) in requests.enumerated() {
                    try await connection.send(request)
                    guard index < count else { continue }
                    try await eventually("the request is answered") {
                        connection.text.lowercased().contains("content-encoding: gzip")
                    }
                }
                try await eventually("the connection is closed") { !connection.isOpen }
                #expect(connection.text.contains("HTTP/1.1 \(status)"), "\(connection.text)")
            }
            let (headers, _) = try await Self.ask(port, Self.get(path, token, "Connection: close\r\n"))
            #expect(headers.hasPrefix("http/1.1 200"))
        }
    }
}
