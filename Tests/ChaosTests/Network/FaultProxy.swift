// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// A TCP proxy on the loopback interface with the faults of networks: it cuts and delays connections, holds data back
/// to deliver it much later, or swallows data while both ends consider the connection open.
///
/// Each direction of a connection has its own blocking thread, outside the cooperative pool.
final class FaultProxy: Sendable {
    enum Flow: Sendable {
        case open
        /// Data is held back, and delivered when the flow is open again.
        case held
        /// Data is lost, as on a half-open connection, which ends only when it is cut.
        case swallowed
        /// New connections are closed at once; existing ones were cut.
        case refused
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private struct State {
        var flow = Flow.open
        /// Delay of each chunk.
        var delay = Duration.zero
        var target: UInt16
        var links: [ObjectIdentifier: Link] = [:]
        var isStopped = false
    }

    private let state: Mutex<State>
    private let listener: Int32
    private let resetsTarget: Bool
    private let rewrites: [TextRewrite]
    let port: UInt16

    /// - Parameters:
    ///   - target: Port on 127.0.0.1 to which connections lead.
    ///   - resetsTarget: Resets the server's connection when the client's ends. An embedded broker that owes an answer
    ///     notices only a reset, and otherwise takes the client's next connection for a second one of the same member.
    ///   - rewrites: Replacements in the clients' data.
    init(to target: UInt16, resetsTarget: Bool = false, rewrites: [TextRewrite] = []) throws {
        self.resetsTarget = resetsTarget
        self.rewrites = rewrites
        state = Mutex(State(target: target))
        listener = Socket.make()
        guard let port = Socket.listen(listener) else {
            close(listener)
            throw Failure(description: "no port for a proxy: error \(errno)")
        }
        self.port = port
        Thread.detachNewThread { [self] in acceptAll() }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        shutdown(listener, Int32(SHUT_RDWR))
        cut()
    }

    /// Resets all connections.
    func cut() {
        let links = state.withLock { Array($0.links.values) }
        for link in links { link.breakOff() }
    }

    func set(_ flow: Flow) {
        state.withLock { state in
            // The connections are broken before the flow opens, so that swallowed data is not delivered.
            if flow == .refused || state.flow == .swallowed {
                for link in state.links.values { link.breakOff() }
            }
            state.flow = flow
        }
    }

    /// Leads new connections to another port.
    func set(target: UInt16) {
        state.withLock { $0.target = target }
    }

    func set(delay: Duration) {
        state.withLock { $0.delay = delay }
    }

    /// Opens the flow again without breaking connections.
    func heal() {
        set(delay: .zero)
        set(.open)
    }

    // MARK: Threads

    private func acceptAll() {
        while true {
            let client = accept(listener, nil, nil)
            let (isStopped, flow, target) = state.withLock { ($0.isStopped, $0.flow, $0.target) }
            if isStopped {
                if client >= 0 { close(client) }
                close(listener)
                return
            }
            guard client >= 0 else { continue }
            Socket.prepare(client)
            guard flow != .refused else {
                Socket.reset(client)
                continue
            }
            let server = Socket.make()
            guard Socket.connect(server, to: target) else {
                close(server)
                Socket.reset(client)
                continue
            }
            if resetsTarget { Socket.linger(server) }
            let link = Link(client, server)
            state.withLock { $0.links[ObjectIdentifier(link)] = link }
            Thread.detachNewThread { [self] in pump(link, from: client, to: server, RewrittenStream(rewrites)) }
            Thread.detachNewThread { [self] in pump(link, from: server, to: client, RewrittenStream([])) }
        }
    }

    private func pump(_ link: Link, from source: Int32, to sink: Int32, _ rewritten: RewrittenStream) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var rewritten = rewritten
        while true {
            let count = read(source, &buffer, buffer.count)
            guard count > 0 else { break }
            guard passes(link), Socket.write(sink, rewritten.pass(buffer[..<count])) else { break }
        }
        if link.end() { state.withLock { $0.links[ObjectIdentifier(link)] = nil } }
    }

    /// Waits as the flow demands; returns false when the link is broken. Swallowed data waits in this loop until the
    /// link is cut.
    private func passes(_ link: Link) -> Bool {
        let delay = state.withLock { $0.delay }
        if delay > .zero { usleep(UInt32(delay / .microseconds(1))) }
        while !link.isBroken {
            switch state.withLock({ $0.flow }) {
            case .open: return true
            case .refused: return false
            // Neither end is read or written: the kernels' buffers take the data, as on half-open connections.
            case .held, .swallowed: usleep(5_000)
            }
        }
        return false
    }

    /// The two sockets of a connection; closed when both directions have ended.
    private final class Link: Sendable {
        private struct State {
            var isBroken = false
            var open = 2
        }

        private let client: Int32
        private let server: Int32
        private let state = Mutex(State())

        init(_ client: Int32, _ server: Int32) {
            self.client = client
            self.server = server
        }

        var isBroken: Bool { state.withLock { $0.isBroken } }

        func breakOff() {
            state.withLock { state in
                guard state.open > 0, !state.isBroken else { return }
                state.isBroken = true
                for descriptor in [client, server] {
                    Socket.linger(descriptor)
                    shutdown(descriptor, Int32(SHUT_RDWR))
                }
            }
        }

        /// Ends one direction and shuts down the other; returns true for the last one.
        func end() -> Bool {
            state.withLock { state in
                state.open -= 1
                state.isBroken = true
                guard state.open == 0 else {
                    shutdown(client, Int32(SHUT_RDWR))
                    shutdown(server, Int32(SHUT_RDWR))
                    return false
                }
                close(client)
                close(server)
                return true
            }
        }
    }
}

/// Sockets on IPv4's loopback interface.
enum Socket {
    static func make() -> Int32 {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        prepare(descriptor)
        return descriptor
    }

    static func prepare(_ descriptor: Int32) {
        var yes: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    /// Listens on a port chosen by the system, and returns it.
    static func listen(_ descriptor: Int32) -> UInt16? {
        var address = address(port: 0)
        let bound = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard bound == 0, Glibc.listen(descriptor, 128) == 0 else { return nil }
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(descriptor, $0, &size) }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    static func connect(_ descriptor: Int32, to port: UInt16) -> Bool {
        var address = address(port: port)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        } == 0
    }

    static func write(_ descriptor: Int32, _ bytes: ArraySlice<UInt8>) -> Bool {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Makes closing reset the connection.
    static func linger(_ descriptor: Int32) {
        var linger = Glibc.linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
    }

    static func reset(_ descriptor: Int32) {
        linger(descriptor)
        close(descriptor)
    }

    private static func address(port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return address
    }
}
