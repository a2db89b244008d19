// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import Foundation
import JSON
import NIOCore
import NIOHTTP1
import TestSupport
import WidgetModel

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// Asks a process's health endpoint.
struct HealthProbe: Sendable {
    struct Answer: Sendable {
        /// HTTP status; 0 if there was no answer.
        var status = 0
        var document: JSONValue = .null

        /// Returns the reason that a check reports; nil if there is none.
        func reason(_ check: String) -> String? {
            guard case .array(let missing)? = document["missing"] else { return nil }
            return missing.first { $0["name"] == .string(check) }?["reason"]?.stringValue
        }
    }

    let port: Int

    func ask(_ what: String) async throws -> Answer {
        do {
            let response = try await HTTPClient.shared.execute(
                HTTPClientRequest(url: "http://127.0.0.1:\(port)/health/\(what)"), timeout: TimeAmount(Patience.limit))
            let body = try await response.body.collect(upTo: 65_536)
            return Answer(
                status: response.status == .ok ? 200 : response.status == .serviceUnavailable ? 503 : -1,
                document: try JSONValue.parse(Array(body.readableBytesView)))
        } catch is HTTPClientError {
            return Answer()
        } catch is IOError {
            return Answer()
        } catch is ChannelError {
            return Answer()
        }
    }

    /// Lines of `/metrics`, without comments.
    func metrics() async throws -> [String] {
        try await metricsText().split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
    }

    func metricsText() async throws -> String {
        let response = try await HTTPClient.shared.execute(
            HTTPClientRequest(url: "http://127.0.0.1:\(port)/metrics"), timeout: TimeAmount(Patience.limit))
        return String(buffer: try await response.body.collect(upTo: 1 << 20))
    }

    func becomesReady() async throws {
        try await eventually("port \(port) reports ready") { try await ask("ready").status == 200 }
    }

    /// Passes a bound port, which refuses connections, to the closure.
    static func withSilentPort<Value>(_ body: (Int) async throws -> Value) async throws -> Value {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(descriptor, address, size) == 0 ? getsockname(descriptor, address, &size) : -1
            }
        }
        guard result == 0 else { throw FreshetProcess.EndedEarly(description: "no free port") }
        return try await body(Int(UInt16(bigEndian: address.sin_port)))
    }
}
