// SPDX-License-Identifier: Apache-2.0

import Glibc
import KafkaClient
import TestSupport
import Testing

@Suite("Stopped brokers of the embedded cluster", .timeLimit(.patience))
struct StoppedBrokerTests {
    /// Whether another socket can bind the port.
    private func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    @Test("A stopped broker keeps its port until the cluster ends")
    func keepsItsPort() async throws {
        var kafka: EmbeddedKafka? = try EmbeddedKafka(brokers: 2, logger: quiet)
        let ports = try #require(kafka).bootstrapServers.split(separator: ",").compactMap { address in
            address.split(separator: ":").last.flatMap { UInt16($0) }
        }
        #expect(ports.count == 2)
        for _ in 1...3 {
            try kafka?.stopBroker(2)
            #expect(!isFree(ports[1]))
            try kafka?.startBroker(2)
            #expect(!isFree(ports[1]))
        }
        try kafka?.stopBroker(2)
        kafka = nil
        // The suite's time limit applies.
        while !isFree(ports[1]) || !isFree(ports[0]) {
            try Task.checkCancellation()
            await Task.yield()
        }
    }
}
