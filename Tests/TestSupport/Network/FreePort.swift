// SPDX-License-Identifier: Apache-2.0

import NIOCore
import NIOPosix

/// A port for a server that is started later, or again.
package enum FreePort {
    /// Below the ports that Linux gives to outgoing connections, one of which could take the port before the server
    /// does.
    static let range = 10_000..<32_768
    static let attempts = 100

    package static func find() async throws -> Int {
        var failure: (any Error)?
        for _ in 0..<attempts {
            let port = Int.random(in: range)
            do {
                let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
                    .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
                    .bind(host: "127.0.0.1", port: port).get()
                try await channel.close()
                return port
            } catch {
                failure = error
            }
        }
        throw failure ?? CancellationError()
    }
}
