import Glibc
package import PostgresClient

/// A TCP proxy in front of the server under test, that can go away, stand still, be slow, and cut a connection at COMMIT
/// or at any message of PostgreSQL's protocol. Each connection has two threads, one for each direction.
package final class TestProxy: Sendable {
    package enum Cut: Sendable {
        case never
        /// The COMMIT is not passed on.
        case beforeCommit
        /// The COMMIT is passed on; its answer is not.
        case afterCommit
    }

    package enum Direction: Sendable, CaseIterable {
        case toServer, toClient
    }

    /// Where to cut: at the nth message in a direction, over all connections, those at their beginning included.
    package struct MessageCut: Sendable, CustomStringConvertible {
        package var direction: Direction
        /// From 1.
        package var number: Int
        /// Whether that message is passed on before the cut; what came before it is.
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
        /// For each connection, by its client's descriptor: the requests that the server has not yet answered whole.
        var unanswered: [Int32: Int] = [:]
        /// The cut to come, and the messages still to be seen before it.
        var messageCut: (cut: MessageCut, left: Int)?
        var delay = Duration.zero
    }

    private let state: Locked<State>
    private let host: String
    private let serverPort: UInt16
    private let port: UInt16
    private let parameters: String

    package init(to configuration: PostgresConfiguration, cutting cut: Cut = .never) throws {
        // TestSupport writes `keyword=value` pairs.
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
        // Takes a port, and keeps it through stops and starts.
        let listener = try Self.listen(on: 0)
        self.port = Self.port(of: listener)
        close(listener)
    }

    /// Without requests for encryption, whose answers of one byte are no messages.
    package var connectionString: String {
        "host=127.0.0.1 port=\(port) \(parameters) sslmode=disable gssencmode=disable"
    }

    package func start() throws {
        let listener = try Self.listen(on: port)
        state.withLock { $0.listener = listener }
        thread { [self] in
            // Whoever accepts closes: its number must not become another socket's before the last look at it.
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

    /// Refuses connections, and cuts those that there are.
    package func stop() {
        // `shutdown` ends the waits of the other threads; they close what is theirs. Under the lock, since they take it
        // away from here before that: a number that is still here is this proxy's.
        state.withLock { state in
            if state.listener >= 0 { shutdown(state.listener, Int32(SHUT_RDWR)) }
            state.listener = -1
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    /// From now on nothing is passed on in either direction, though the connections stay: a server that stands still.
    package func freeze(_ isFrozen: Bool = true) { state.withLock { $0.isFrozen = isFrozen } }

    /// Cuts one connection, where `cut` says, counting from now; nil takes that back.
    package func cut(_ cut: MessageCut?) {
        state.withLock { $0.messageCut = cut.map { ($0, $0.number) } }
    }

    /// Whether the latest ``cut(_:)-(MessageCut?)`` is still to come.
    package var isCutToCome: Bool { state.withLock { $0.messageCut != nil } }

    /// Whether all that was asked has been answered whole (ReadyForQuery), on each connection that there is.
    package var isQuiet: Bool { state.withLock { $0.unanswered.values.allSatisfy { $0 <= 0 } } }

    /// From now on whatever the server says arrives this much later.
    package func delay(_ delay: Duration) { state.withLock { $0.delay = delay } }

    /// Cuts all connections; new ones are let in.
    package func cutAll() {
        state.withLock { state in
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    /// How much of these bytes to pass on, and whether the connection is cut behind that.
    private func look(
        at bytes: [UInt8], of client: Int32, _ direction: Direction, _ framing: inout Framing
    ) -> (passed: ArraySlice<UInt8>, isCut: Bool) {
        let begins = framing.messageBegins(in: bytes)
        return state.withLock { state in
            // A Query and a Sync are each answered by one ReadyForQuery; a connection begins with one, too.
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

    /// Finds where messages begin in a stream: a letter and a length, but for the first ones of a client.
    private struct Framing {
        /// What a client says first has no letter.
        var isStartup: Bool
        /// Bytes of the current message that are still to come; nil while its header is incomplete.
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
                // What comes after the COMMIT was passed on is its answer, or follows earlier ones in the same round trip.
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
