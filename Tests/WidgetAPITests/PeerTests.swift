// SPDX-License-Identifier: Apache-2.0

import NIOCore
import TestSupport
import Testing

@testable import WidgetAPI

@Suite("Limit of refused tokens by address", .tags(.api), .timeLimit(.patience))
struct PeerTests {
    @Test("An IPv6 address counts as its network, an IPv4 address is the same in both forms")
    func peers() throws {
        func peer(_ text: String) throws -> [UInt8]? { try SocketAddress(ipAddress: text, port: 7).peer }
        #expect(try peer("192.0.2.1") == [192, 0, 2, 1])
        #expect(try peer("::ffff:192.0.2.1") == [192, 0, 2, 1])
        #expect(try peer("2001:db8:1:2::1") == peer("2001:db8:1:2:ffff::9"))
        #expect(try peer("2001:db8:1:2::1") != peer("2001:db8:1:3::1"))
        #expect(try SocketAddress(unixDomainSocketPath: "/tmp/s").peer == nil)
    }

    @Test("An address with refused tokens has to wait, but cached tokens are still accepted from it")
    func gate() async throws {
        try await withStore { store in
            let configuration = APIConfiguration.test { $0.failuresPerMinute = 1 }
            try await withServedAPI(store, configuration: configuration) { port, tokens in
                func ask(_ bearer: String?) async throws -> String {
                    try await RawConnection.ask(port, "\(TestAPI.base)/kinds", bearer: bearer)
                }
                let known = try await tokens.token()
                #expect(try await ask(known).hasPrefix("HTTP/1.1 200"))
                // A missing token does not count.
                for _ in 0..<5 { #expect(try await ask(nil).hasPrefix("HTTP/1.1 401")) }
                #expect(try await ask("guess-1").hasPrefix("HTTP/1.1 401"))
                let refused = try await ask("guess-2")
                #expect(refused.hasPrefix("HTTP/1.1 429"), "\(refused)")
                #expect(refused.lowercased().contains("retry-after: "))
                #expect(refused.contains("too many tokens from this address were refused"))
                // Other tokens are not verified meanwhile.
                #expect(try await ask(try await tokens.token(user: "u1")).hasPrefix("HTTP/1.1 429"))
                #expect(try await ask(known).hasPrefix("HTTP/1.1 200"))
            }
        }
    }
}
