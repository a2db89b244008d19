// SPDX-License-Identifier: Apache-2.0

import Glibc
import TestSupport
import Testing

@testable import KafkaClient

@Suite("Listeners of the embedded cluster", .timeLimit(.patience))
struct ListenerOptionsTests {
    private func isSendingAtOnce(_ descriptor: Int32) -> Bool {
        var value: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        return getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &value, &size) == 0 && value != 0
    }

    /// A listener on its own port.
    private func listener() throws -> (descriptor: Int32, port: UInt16) {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, length) == 0 && listen(descriptor, 1) == 0
                    && getsockname(descriptor, $0, &length) == 0
            }
        }
        try #require(isBound)
        return (descriptor, UInt16(bigEndian: address.sin_port))
    }

    @Test("Sockets accepted at a given port send without delay, those at other ports do not")
    func ports() throws {
        let (one, other) = (try listener(), try listener())
        defer {
            close(one.descriptor)
            close(other.descriptor)
        }
        #expect(EmbeddedKafka.listeners(at: [one.port]) == [one.descriptor])
        EmbeddedKafka.sendAtOnce(ports: [one.port])
        #expect(isSendingAtOnce(one.descriptor))
        #expect(!isSendingAtOnce(other.descriptor))
        EmbeddedKafka.sendAtOnce(ports: [])
        #expect(!isSendingAtOnce(other.descriptor))
    }

    @Test("Brokers send without delay, also after a restart")
    func brokers() throws {
        let kafka = try EmbeddedKafka(brokers: 2, logger: quiet)
        let ports = kafka.bootstrapServers.split(separator: ",").compactMap { address in
            address.split(separator: ":").last.flatMap { UInt16($0) }
        }
        for port in ports {
            let listeners = EmbeddedKafka.listeners(at: [port])
            #expect(!listeners.isEmpty && listeners.allSatisfy(isSendingAtOnce))
        }
        try kafka.stopBroker(2)
        try kafka.startBroker(2)
        let listeners = EmbeddedKafka.listeners(at: [try #require(ports.last)])
        #expect(!listeners.isEmpty && listeners.allSatisfy(isSendingAtOnce))
    }
}
