// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
package import PostgresClient

/// Stand-in for a connection pooler in transaction mode: after its login, a client has a server's connection only from
/// the first message of a transaction to its end, and the connection that was used last is the next one. As PgBouncer
/// does, it names a process of its own at the login. A thread serves each client.
package final class TransactionPooler: Sendable {
    package struct Failure: Error {
        let message: String
    }

    private struct State {
        /// Server connections outside of transactions; the last one is used next.
        var idle: [Int32] = []
        var open: [Int32] = []
        var clients = 0
        var statements: [String] = []
    }

    private let state = Locked(State())
    private let listener: Int32
    private let server: sockaddr_in
    package let connectionString: String

    private let keepsSessions: Bool

    /// Number of clients so far.
    package var clients: Int { state.withLock { $0.clients } }

    /// Statements of both protocols so far.
    package var statements: [String] { state.withLock { $0.statements } }

    /// - Parameters:
    ///   - configuration: of a server of this machine, in the form of TestSupport's.
    ///   - keepsSessions: session mode: a client keeps its server's connection.
    package init(to configuration: PostgresConfiguration, keepsSessions: Bool = false) throws {
        self.keepsSessions = keepsSessions
        var rest: [String] = []
        var port = UInt16(5432)
        for pair in configuration.connectionString.split(separator: " ") where !pair.hasPrefix("host=") {
            if pair.hasPrefix("port=") { port = UInt16(pair.dropFirst(5)) ?? port } else { rest.append(String(pair)) }
        }
        server = Self.address(port: port)
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        self.listener = listener
        var own = Self.address(port: 0)
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        guard Self.with(&own, { bind(listener, $0, size) }) == 0, listen(listener, 16) == 0,
            Self.with(&own, { getsockname(listener, $0, &size) }) == 0
        else { throw Failure(message: "the pooler cannot listen: error \(errno)") }
        connectionString =
            "host=127.0.0.1 port=\(UInt16(bigEndian: own.sin_port)) \(rest.joined(separator: " ")) "
            + "sslmode=disable gssencmode=disable"
        Thread.detachNewThread { [self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                Thread.detachNewThread { [self] in serve(client) }
            }
        }
    }

    package func stop() {
        shutdown(listener, Int32(SHUT_RDWR))
        for socket in state.withLock({ $0.open }) { shutdown(socket, Int32(SHUT_RDWR)) }
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return address
    }

    private static func with(
        _ address: inout sockaddr_in, _ body: (UnsafeMutablePointer<sockaddr>) -> Int32
    ) -> Int32 {
        withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0) }
        }
    }

    private func serve(_ client: Int32) {
        let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        state.withLock { state in
            state.clients += 1
            state.open += [client, server]
        }
        var address = self.server
        guard Self.with(&address, { connect(server, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) }) == 0,
            login(client, server)
        else {
            shutdown(client, Int32(SHUT_RDWR))
            return
        }
        if keepsSessions {
            while let request = Self.message(from: client), transaction(client, server, request) {}
            // Ends the session.
            shutdown(server, Int32(SHUT_RDWR))
            shutdown(client, Int32(SHUT_RDWR))
            return
        }
        // A pooler opens server connections on demand, so a new one is the last to be used.
        state.withLock { $0.idle.insert(server, at: 0) }
        while let request = Self.message(from: client), request[0] != UInt8(ascii: "X") {
            guard let server = state.withLock({ $0.idle.popLast() }), transaction(client, server, request) else {
                break
            }
            state.withLock { $0.idle.append(server) }
        }
        shutdown(client, Int32(SHUT_RDWR))
    }

    /// Passes the login on, until the server is ready.
    private func login(_ client: Int32, _ server: Int32) -> Bool {
        guard let startup = Self.message(from: client, letters: 0), Self.write(startup, to: server) else {
            return false
        }
        while var answer = Self.message(from: server) {
            if answer[0] == UInt8(ascii: "K") { answer.replaceSubrange(5..<9, with: [1, 2, 3, 4]) }
            guard Self.write(answer, to: client) else { return false }
            switch answer[0] {
            case UInt8(ascii: "Z"): return true
            // Requests for a password, except for its verification at the end.
            case UInt8(ascii: "R") where [3, 5, 10, 11].contains(answer[8]):
                guard let password = Self.message(from: client), Self.write(password, to: server) else { return false }
            default: break
            }
        }
        return false
    }

    /// Passes messages on until the server is outside of a transaction.
    private func transaction(_ client: Int32, _ server: Int32, _ first: [UInt8]) -> Bool {
        var request = first
        while true {
            if [UInt8(ascii: "Q"), UInt8(ascii: "P")].contains(request[0]) {
                let text = String(decoding: request.dropFirst(5), as: UTF8.self)
                state.withLock { $0.statements.append(text) }
            }
            guard Self.write(request, to: server) else { return false }
            if [UInt8(ascii: "Q"), UInt8(ascii: "S")].contains(request[0]) {
                var status = UInt8(ascii: "T")
                while let answer = Self.message(from: server) {
                    guard Self.write(answer, to: client) else { return false }
                    guard answer[0] == UInt8(ascii: "Z") else { continue }
                    status = answer[5]
                    break
                }
                if status == UInt8(ascii: "I") { return true }
            }
            guard let next = Self.message(from: client), next[0] != UInt8(ascii: "X") else { return false }
            request = next
        }
    }

    /// A message with its letter and length; nil at the end.
    private static func message(from socket: Int32, letters: Int = 1) -> [UInt8]? {
        guard let header = read(letters + 4, from: socket) else { return nil }
        let length = header[letters...].reduce(0) { $0 << 8 | Int($1) }
        return read(max(0, length - 4), from: socket).map { header + $0 }
    }

    private static func read(_ count: Int, from socket: Int32) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var read = 0
        while read < count {
            let got = bytes.withUnsafeMutableBytes { recv(socket, $0.baseAddress! + read, count - read, 0) }
            guard got > 0 else { return nil }
            read += got
        }
        return bytes
    }

    private static func write(_ bytes: [UInt8], to socket: Int32) -> Bool {
        var written = 0
        while written < bytes.count {
            let put = bytes.withUnsafeBytes {
                send(socket, $0.baseAddress! + written, bytes.count - written, Int32(MSG_NOSIGNAL))
            }
            guard put > 0 else { return false }
            written += put
        }
        return true
    }
}
