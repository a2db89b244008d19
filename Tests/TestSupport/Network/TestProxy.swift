// SPDX-License-Identifier: Apache-2.0

import Glibc
package import PostgresClient

/// A TCP proxy in front of a PostgreSQL server that can stop, freeze, delay answers, and cut a connection at COMMIT or
/// at any protocol message. Two threads serve each connection, one for each direction.
package final class TestProxy: Sendable {
    package enum Cut: Sendable {
        case never
        /// Cuts the connection before the COMMIT is forwarded.
        case beforeCommit
        /// Forwards the COMMIT and cuts the connection before its answer.
        case afterCommit
    }

    package enum Direction: Sendable, CaseIterable {
        case toServer, toClient
    }

    /// Place of a cut: the nth message in one direction, counted over all connections and including their start-up
    /// messages.
    package struct MessageCut: Sendable, CustomStringConvertible {
        package var direction: Direction
        /// Number of the message, from 1.
        package var number: Int
        /// Whether the message is forwarded before the cut. Earlier messages always are.
        package var isPassedOn: Bool

        package init(_ direction: Direction, _ number: Int, isPassedOn: Bool = false) {
            self.direction = direction
            self.number = number
            self.isPassedOn = isPassedOn
        }

        package var description: String {
            "\(isPassedOn ? "after" : "before") message \(number) \(direction)"
        }
    }

    package struct Failure: Error {
        let message: String
    }

    private struct State {
        var listener: Int32 = -1
        var connections: Set<Int32> = []
        var cut: Cut
        var isFrozen = false
        /// Requests without a complete answer, by the client's descriptor.
        var unanswered: [Int32: Int] = [:]
        /// Pending cut, and the number of messages left before it.
        var messageCut: (cut: MessageCut, left: Int)?
        var delay = Duration.zero
    }

    private let state: Locked<State>
    private let host: String
    private let serverPort: UInt16
    private let port: UInt16
    private let parameters: String

    package init(to configuration: PostgresConfiguration, cutting cut: Cut = .never) throws {
        // TestSupport's connection strings consist of `keyword=value` pairs.
        var rest: [String] = []
        var (host, serverPort) = ("127.0.0.1", UInt16(5432))
        for pair in configuration.connectionString.split(separator: " ") {
            if pair.hasPrefix("host=") {
                host = String(pair.dropFirst(5))
            } else if pair.hasPrefix("port=") {
                serverPort = UInt16(pair.dropFirst(5)) ?? serverPort
            } else {
                rest.append(String(pair))
            }
        }
        self.host = host
        self.serverPort = serverPort
        self.parameters = rest.joined(separator: " ")
        self.state = Locked(State(cut: cut))
        // Reserves a port that `stop()` and `start()` keep.
        let listener = try Self.listenOnFreePort()
        self.port = Self.port(of: listener)
        close(listener)
    }

    /// Connection string that disables encryption requests, whose one-byte answers are not protocol messages.
    package var connectionString: String {
        "host=127.0.0.1 port=\(port) \(parameters) sslmode=disable gssencmode=disable"
    }

    package func start() throws {
        let listener = try Self.listen(on: port)
        state.withLock { $0.listener = listener }
        thread { [self] in
            // Only the accepting thread closes the descriptor, so that another socket cannot reuse its number
            // meanwhile.
            defer {
                state.withLock { if $0.listener == listener { $0.listener = -1 } }
                close(listener)
            }
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                let server = connectToServer()
                guard server >= 0 else {
                    close(client)
                    continue
                }
                let isWanted = state.withLock { state in
                    guard state.listener == listener else { return false }
                    state.connections.formUnion([client, server])
                    state.unanswered[client] = 1
                    return true
                }
                guard isWanted else {
                    close(client)
                    close(server)
                    return
                }
                serve(client: client, server: server)
            }
        }
    }

    /// Refuses new connections and cuts existing ones.
    package func stop() {
        // `shutdown` wakes the other threads, which close their own descriptors. They remove them from the state under
        // this lock first, so every descriptor found here still belongs to the proxy.
        state.withLock { state in
            if state.listener >= 0 { shutdown(state.listener, Int32(SHUT_RDWR)) }
            state.listener = -1
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    /// Stops forwarding in both directions while the connections stay open, like a server that hangs.
    package func freeze(_ isFrozen: Bool = true) { state.withLock { $0.isFrozen = isFrozen } }

    /// Cuts one connection at the given message, counted from now; nil cancels the cut.
    package func cut(_ cut: MessageCut?) {
        state.withLock { $0.messageCut = cut.map { ($0, $0.number) } }
    }

    /// Whether the latest ``cut(_:)-(MessageCut?)`` is still pending.
    package var isCutToCome: Bool { state.withLock { $0.messageCut != nil } }

    /// Whether every request on an open connection has its complete answer (ReadyForQuery).
    package var isQuiet: Bool { state.withLock { $0.unanswered.values.allSatisfy { $0 <= 0 } } }

    /// Delays everything that the server sends.
    package func delay(_ delay: Duration) { state.withLock { $0.delay = delay } }

    /// Cuts all connections; new ones are accepted.
    package func cutAll() {
        state.withLock { state in
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    /// Returns the bytes to forward, and whether to cut the connection after them.
    private func look(
        at bytes: [UInt8], of client: Int32, _ direction: Direction, _ framing: inout Framing
    ) -> (passed: ArraySlice<UInt8>, isCut: Bool) {
        let begins = framing.messageBegins(in: bytes)
        return state.withLock { state in
            // Each Query and each Sync has one ReadyForQuery as its answer, and so has the start of a connection.
            switch direction {
            case .toServer:
                state.unanswered[client]? += begins.count {
                    bytes[$0] == UInt8(ascii: "Q") || bytes[$0] == UInt8(ascii: "S")
                }
            case .toClient:
                state.unanswered[client]? -= begins.count { bytes[$0] == UInt8(ascii: "Z") }
            }
            guard let (cut, left) = state.messageCut, cut.direction == direction else { return (bytes[...], false) }
            guard begins.count >= left else {
                state.messageCut = (cut, left - begins.count)
                return (bytes[...], false)
            }
            state.messageCut = nil
            let end = cut.isPassedOn ? (begins.count > left ? begins[left] : bytes.count) : begins[left - 1]
            return (bytes[..<end], true)
        }
    }

    /// Splits a stream into messages: a type letter and a length. A client's start-up messages have no letter.
    private struct Framing {
        /// Whether the next message is a start-up message, without a letter.
        var isStartup: Bool
        /// Remaining bytes of the current message; nil while its header is incomplete.
        private var left: Int? = 0
        private var header: [UInt8] = []

        init(isStartup: Bool) { self.isStartup = isStartup }

        mutating func messageBegins(in bytes: [UInt8]) -> [Int] {
            var begins: [Int] = []
            var index = 0
            while index < bytes.count {
                if let left, left > 0 {
                    let step = min(left, bytes.count - index)
                    index += step
                    self.left = left - step
                    continue
                }
                if header.isEmpty { begins.append(index) }
                left = nil
                header.append(bytes[index])
                index += 1
                let letters = isStartup ? 0 : 1
                guard header.count == letters + 4 else { continue }
                let length = header[letters...].reduce(0) { $0 << 8 | Int($1) }
                header = []
                left = max(0, length - 4)
                isStartup = false
            }
            return begins
        }
    }

    private func wait(_ delay: Duration) {
        guard delay > .zero else { return }
        usleep(UInt32(delay / .microseconds(1)))
    }

    private var isFrozen: Bool { state.withLock { $0.isFrozen } }

    private func serve(client: Int32, server: Int32) {
        let ends = Locked(2)
        let end = { @Sendable [self] in
            for descriptor in [client, server] { shutdown(descriptor, Int32(SHUT_RDWR)) }
            state.withLock { $0.unanswered[client] = nil }
            let isLast = ends.withLock { ends in
                ends -= 1
                return ends == 0
            }
            guard isLast else { return }
            state.withLock { $0.connections.subtract([client, server]) }
            close(client)
            close(server)
        }
        let hasCommitted = Locked(false)
        thread { [self] in
            defer { end() }
            var framing = Framing(isStartup: true)
            while let read = Self.read(client) {
                let (passed, isCut) = look(at: read, of: client, .toServer, &framing)
                let bytes = Array(passed)
                let sees = Self.contains(bytes, Array("COMMIT\0".utf8))
                let cut = state.withLock { $0.cut }
                if sees, cut == .beforeCommit { return }
                if isFrozen { continue }
                if sees, cut == .afterCommit { hasCommitted.withLock { $0 = true } }
                guard Self.write(server, bytes), !isCut else { return }
            }
        }
        thread { [self] in
            defer { end() }
            var framing = Framing(isStartup: false)
            while let read = Self.read(server) {
                let (passed, isCut) = look(at: read, of: client, .toClient, &framing)
                let bytes = Array(passed)
                wait(state.withLock { $0.delay })
                if isFrozen { continue }
                // After a COMMIT was forwarded, the next COMMIT tag is its answer.
                if hasCommitted.withLock({ $0 }), Self.contains(bytes, Array("COMMIT\0".utf8)) { return }
                guard Self.write(client, bytes), !isCut else { return }
            }
        }
    }

    private func thread(_ body: @escaping @Sendable () -> Void) {
        final class Box {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        var id = pthread_t()
        let context = Unmanaged.passRetained(Box(body)).toOpaque()
        pthread_create(
            &id, nil,
            { context in
                Unmanaged<Box>.fromOpaque(context!).takeRetainedValue().body()
                return nil
            }, context)
        pthread_detach(id)
    }

    private func connectToServer() -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = Self.address(port: serverPort)
        address.sin_addr.s_addr = inet_addr(host)
        let answer = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        if answer == 0 { return descriptor }
        close(descriptor)
        return -1
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return address
    }

    private static func listenOnFreePort() throws -> Int32 {
        for _ in 1..<FreePort.attempts {
            if let listener = try? listen(on: UInt16(Int.random(in: FreePort.range))) { return listener }
        }
        return try listen(on: UInt16(Int.random(in: FreePort.range)))
    }

    private static func listen(on port: UInt16) throws -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var yes: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = address(port: port)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0, Glibc.listen(descriptor, 16) == 0 else {
            close(descriptor)
            throw Failure(message: "no port for the proxy: error \(errno)")
        }
        return descriptor
    }

    private static func port(of descriptor: Int32) -> UInt16 {
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    private static func read(_ descriptor: Int32) -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = Glibc.read(descriptor, &buffer, buffer.count)
        return count > 0 ? Array(buffer[..<count]) : nil
    }

    private static func write(_ descriptor: Int32, _ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private static func contains(_ bytes: [UInt8], _ wanted: [UInt8]) -> Bool {
        bytes.indices.contains { bytes[$0...].starts(with: wanted) }
    }
}
