// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import Foundation
import JSON
import NIOCore
import NIOHTTP1
import TestSupport
import Testing
import WidgetModel

/// Sends requests to the HTTP API of a process.
struct APIProbe: Sendable {
    let port: Int
    let token: String
    var app = Installation.app

    struct Answer: Sendable {
        let status: Int
        let document: JSONValue
        let etag: String?
        let stale: String?
        let text: String
    }

    func ask(
        _ method: HTTPMethodName, _ path: String, body: JSONValue? = nil, known: String? = nil
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/v1/apps/\(app)/\(path)")
        request.method = .RAW(value: method.rawValue)
        request.headers.add(name: "Authorization", value: "Bearer \(token)")
        if let known { request.headers.add(name: "If-None-Match", value: known) }
        if let body {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(bytes: body.encoded))
        }
        let response = try await HTTPClient.shared.execute(request, timeout: TimeAmount(Patience.limit))
        let text = String(buffer: try await response.body.collect(upTo: 1 << 20))
        return Answer(
            status: Int(response.status.code), document: (try? JSONValue.parse(text)) ?? .null,
            etag: response.headers.first(name: "ETag"), stale: response.headers.first(name: "Freshet-Stale"), text: text
        )
    }

    enum HTTPMethodName: String {
        case get = "GET"
        case put = "PUT"
        case post = "POST"
        case delete = "DELETE"
    }
}

extension Installation {
    /// Passes a key file that the command has created to the closure.
    func withKeys(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-keys-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("keys.json").path
        let made = try await freshet("tokens", "keys", "--algorithm", "ES256", "--output", path)
        #expect(made.status == 0, "\(made.err)")
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        let again = try await freshet("tokens", "keys", "--output", path)
        #expect(again.status == 1 && again.err.contains("cannot create"))
        try await body(path)
    }

    func token(_ keys: String, app: String = Installation.app, _ arguments: String...) async throws -> String {
        let issued = try await FreshetProcess.run(
            ["tokens", "issue", "--keys", keys, "--app", app] + arguments, environment: environment)
        #expect(issued.status == 0, "\(issued.err)")
        return issued.out.trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
