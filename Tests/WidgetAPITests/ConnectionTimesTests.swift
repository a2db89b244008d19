// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import NIOCore
import NIOEmbedded
import NIOHTTP1
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Time limits of connections", .tags(.api), .timeLimit(.patience))
struct ConnectionTimesTests {
    private static let head = HTTPServerRequestPart.head(
        HTTPRequestHead(version: .http1_1, method: .POST, uri: "/", headers: ["host": "h"]))

    /// A long idle limit, which closes no connection here.
    private static let configuration = APIConfiguration.test {
        $0.times.idle = .seconds(600)
        $0.times.receive = .seconds(1)
    }

    private static func put(_ token: String, length: Int) -> String {
        "PUT \(TestAPI.base)/kinds/K HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \(token)\r\n"
            + "Content-Type: application/json\r\nContent-Length: \(length)\r\n\r\n{"
    }

    /// Sends a request whose body does not end, and returns the answer when the connection is closed.
    ///
    /// On a busy machine the connection may close before the request is answered; then the request is sent again.
    private static func answer(_ port: Int, to request: String) async throws -> String {
        while true {
            let connection = try await RawConnection.open(port)
            try await connection.send(request)
            try await eventually("the connection is closed") {
                try? await connection.send(" ")
                return !connection.isOpen
            }
            let text = connection.text
            guard text.isEmpty else { return text }
            try Task.checkCancellation()
        }
    }

    @Test("A body that arrives too slowly is answered with 408 in time, and the connection closes")
    func slowBody() async throws {
        try await withStore { store in
            try await withServedAPI(store, configuration: Self.configuration) {
                port, tokens in
                let text = try await Self.answer(port, to: Self.put(try await tokens.token(), length: 100_000))
                #expect(text.hasPrefix("HTTP/1.1 408"), "\(text)")
                #expect(text.lowercased().contains("connection: close"))
                #expect(text.contains("urn:freshet:problem:request-timeout"))
            }
        }
    }

    @Test("The unread body of a refused request does not keep the connection open")
    func unreadBody() async throws {
        try await withStore { store in
            try await withServedAPI(store, configuration: Self.configuration) { port, _ in
                let text = try await Self.answer(port, to: Self.put("nobody", length: 100_000))
                #expect(text.hasPrefix("HTTP/1.1 401"), "\(text)")
            }
        }
    }

    @Test("A body in parts is accepted, and the connection serves the next request")
    func slowEnough() async throws {
        try await withStore { store in
            try await withServedAPI(store, configuration: APIConfiguration.test()) { port, tokens in
                let connection = try await RawConnection.open(port)
                let token = try await tokens.token()
                for count in 1...2 {
                    try await connection.send(Self.put(token, length: 12))
                    try await connection.send(#""maxBatch""#)
                    try await connection.send("x")
                    // The body is read to its end and rejected as invalid JSON.
                    try await eventually("the request is answered") {
                        connection.text.components("HTTP/1.1 400") == count
                    }
                }
                #expect(connection.isOpen)
                try await connection.close()
            }
        }
    }

    @Test("Only an incomplete request has a timer")
    func timer() throws {
        func channel() throws -> EmbeddedChannel {
            let channel = EmbeddedChannel(handler: HTTPRules(closingAfter: .seconds(10)))
            try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
            return channel
        }
        let whole = try channel()
        for _ in 0..<3 {
            try whole.writeInbound(Self.head)
            whole.embeddedEventLoop.advanceTime(by: .seconds(9))
            try whole.writeInbound(HTTPServerRequestPart.body(ByteBuffer(string: "x")))
            try whole.writeInbound(HTTPServerRequestPart.end(nil))
        }
        whole.embeddedEventLoop.advanceTime(by: .seconds(100))
        #expect(whole.isActive)
        _ = try whole.finish()

        let dripping = try channel()
        try dripping.writeInbound(Self.head)
        for _ in 0..<9 {
            dripping.embeddedEventLoop.advanceTime(by: .seconds(1))
            try dripping.writeInbound(HTTPServerRequestPart.body(ByteBuffer(string: "x")))
        }
        #expect(dripping.isActive)
        dripping.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!dripping.isActive)
    }

    @Test("The health port closes idle connections and those with a slow request head")
    func healthPort() async throws {
        var times = ConnectionTimes()
        times.idle = .milliseconds(300)
        try await withPort { [times] onListening in
            try await HealthService(
                host: "127.0.0.1", port: 0, readiness: Readiness(checks: []), liveness: [], times: times,
                logger: quiet, onListening: onListening
            ).run()
        } _: { port in
            let silent = try await RawConnection.open(port)
            let dripping = try await RawConnection.open(port)
            // The server may have closed it already.
            try? await dripping.send("GET /health/live HTTP/1.1\r\nX: ")
            try await eventually("both connections are closed") {
                try? await dripping.send("x")
                return !silent.isOpen && !dripping.isOpen
            }
            #expect(silent.text.isEmpty && !dripping.text.contains("200"))
            try await eventually("a whole request is answered") {
                (try? await RawConnection.ask(port, "/health/live", bearer: nil))?.hasPrefix("HTTP/1.1 200") == true
            }
        }
    }
}

extension String {
    /// Returns the number of occurrences of another text.
    fileprivate func components(_ text: String) -> Int { ranges(of: text).count }
}
