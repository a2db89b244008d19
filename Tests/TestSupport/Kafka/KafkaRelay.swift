// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
package import KafkaClient
import Synchronization

/// A TCP relay between clients and a broker of an embedded cluster. It can show a transaction that stays open: fetches
/// then report more messages behind the last stable offset. It can also lead to another cluster.
///
/// Two threads serve each connection, one for each direction.
package final class KafkaRelay: Sendable {
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private struct State {
        var target: UInt16
        var openMessages: [TopicPartition: Int64] = [:]
        var connections: Set<Int32> = []
    }

    private let state: Mutex<State>
    private let listener: Int32
    private let port: UInt16
    private let broker: UInt16

    private static let fetch: Int16 = 1

    /// - Parameter kafka: cluster of one broker.
    package init(to kafka: EmbeddedKafka) throws {
        broker = try Self.port(of: kafka)
        state = Mutex(State(target: broker))
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        // The system chooses the port.
        let isBound = Self.withAddress(port: 0) { bind(listener, $0, $1) }
        guard isBound == 0, listen(listener, 16) == 0 else { throw Failure(description: "no port for the relay") }
        var address = sockaddr_in()
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(listener, $0, &size) }
        }
        (self.listener, port) = (listener, UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in acceptAll() }
    }

    /// The configuration of a client that connects through the relay.
    package func route(_ configuration: KafkaConfiguration) -> KafkaConfiguration {
        var configuration = configuration
        configuration.routes = [broker: port]
        return configuration
    }

    /// Sets the number of messages behind the last stable offset that fetches of a partition report, as while a
    /// transaction is open.
    package func show(openMessages: Int64, in partition: TopicPartition) {
        state.withLock { $0.openMessages[partition] = openMessages }
    }

    /// Leads to another cluster, whose broker's address clients must not use: the first one's is routed to it.
    package func lead(to kafka: EmbeddedKafka) throws {
        let target = try Self.port(of: kafka)
        state.withLock { state in
            state.target = target
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }

    package func close() {
        shutdown(listener, Int32(SHUT_RDWR))
        state.withLock { for connection in $0.connections { shutdown(connection, Int32(SHUT_RDWR)) } }
    }

    private static func port(of kafka: EmbeddedKafka) throws -> UInt16 {
        guard let port = kafka.bootstrapServers.split(separator: ":").last.flatMap({ UInt16($0) }) else {
            throw Failure(description: "no port in \(kafka.bootstrapServers)")
        }
        return port
    }

    // MARK: Connections

    private func acceptAll() {
        while true {
            let client = accept(listener, nil, nil)
            guard client >= 0 else { break }
            let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            guard Self.withAddress(port: state.withLock({ $0.target }), { connect(server, $0, $1) }) == 0 else {
                Glibc.close(client)
                Glibc.close(server)
                continue
            }
            state.withLock { $0.connections.formUnion([client, server]) }
            serve(client: client, server: server)
        }
        Glibc.close(listener)
    }

    private func serve(client: Int32, server: Int32) {
        let ends = Box(2)
        let fetches = Box([Int32: Int16]())
        let end = { @Sendable [self] in
            for descriptor in [client, server] { shutdown(descriptor, Int32(SHUT_RDWR)) }
            let isLast = ends.value.withLock { ends in
                ends -= 1
                return ends == 0
            }
            guard isLast else { return }
            state.withLock { $0.connections.subtract([client, server]) }
            Glibc.close(client)
            Glibc.close(server)
        }
        Thread.detachNewThread {
            defer { end() }
            while let request = Self.frame(from: client) {
                // Kind, version, correlation id.
                if request.count >= 8, Self.number(request, 0, as: Int16.self) == Self.fetch {
                    let version = Self.number(request, 2, as: Int16.self)
                    let id = Self.number(request, 4, as: Int32.self)
                    fetches.value.withLock { $0[id] = version }
                }
                guard Self.write(request, to: server) else { return }
            }
        }
        Thread.detachNewThread { [self] in
            defer { end() }
            while var answer = Self.frame(from: server) {
                let id = Self.number(answer, 0, as: Int32.self)
                let open = state.withLock { $0.openMessages }
                if let version = fetches.value.withLock({ $0.removeValue(forKey: id) }), !open.isEmpty {
                    Self.raiseHighWatermarks(of: &answer, version, by: open)
                }
                guard Self.write(answer, to: client) else { return }
            }
        }
    }

    private final class Box<Value: Sendable>: Sendable {
        let value: Mutex<Value>
        init(_ value: Value) { self.value = Mutex(value) }
    }

    // MARK: Fetch answers, versions 4 to 11

    private static func raiseHighWatermarks(
        of answer: inout [UInt8], _ version: Int16, by open: [TopicPartition: Int64]
    ) {
        // Correlation id, throttle time, error, session.
        var place = 8 + (version >= 7 ? 6 : 0)
        let topics = number(answer, place, as: Int32.self)
        place += 4
        for _ in 0..<topics {
            let name = place + 2..<place + 2 + Int(number(answer, place, as: Int16.self))
            let topic = String(decoding: answer[name], as: UTF8.self)
            place = name.upperBound
            let partitions = number(answer, place, as: Int32.self)
            place += 4
            for _ in 0..<partitions {
                let partition = TopicPartition(topic: topic, partition: number(answer, place, as: Int32.self))
                // Partition, error.
                place += 6
                let mark = number(answer, place, as: Int64.self) + open[partition, default: 0]
                let raised = withUnsafeBytes(of: mark.bigEndian) { Array($0) }
                answer.replaceSubrange(place..<place + 8, with: raised)
                place += 16 + (version >= 5 ? 8 : 0)
                place += 4 + 16 * max(0, Int(number(answer, place, as: Int32.self)))
                place += version >= 11 ? 4 : 0
                place += 4 + max(0, Int(number(answer, place, as: Int32.self)))
            }
        }
    }

    private static func number<Number: FixedWidthInteger>(
        _ bytes: [UInt8], _ place: Int, as: Number.Type
    ) -> Number {
        bytes[place..<place + MemoryLayout<Number>.size].reduce(0) { $0 << 8 | Number(truncatingIfNeeded: $1) }
    }

    // MARK: Sockets

    private static func withAddress(
        port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }

    /// The next message without its length; nil at the end.
    private static func frame(from descriptor: Int32) -> [UInt8]? {
        guard let length = receive(4, from: descriptor) else { return nil }
        return receive(Int(number(length, 0, as: Int32.self)), from: descriptor)
    }

    private static func receive(_ count: Int, from descriptor: Int32) -> [UInt8]? {
        var bytes: [UInt8] = []
        while bytes.count < count {
            var part = [UInt8](repeating: 0, count: count - bytes.count)
            let received = recv(descriptor, &part, part.count, 0)
            guard received > 0 else { return nil }
            bytes += part[..<received]
        }
        return bytes
    }

    private static func write(_ message: [UInt8], to descriptor: Int32) -> Bool {
        var rest = (withUnsafeBytes(of: Int32(message.count).bigEndian) { Array($0) } + message)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }
}
