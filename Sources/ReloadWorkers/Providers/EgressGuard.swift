package import NIOCore
import Synchronization
package import WidgetModel

/// Enforces the egress policy on a provider's host before a request, and on every connection.
package final class EgressGuard: Sendable {
    /// A forbidden host or address.
    struct Refusal: Error, CustomStringConvertible {
        let description: String
    }

    private let policy: EgressPolicy
    private let resolver: HostResolver
    /// Addresses of hosts that are permitted by name, since a connection has only an address.
    private let named = Mutex<[String: [IPAddress]]>([:])

    package convenience init(_ policy: EgressPolicy) {
        self.init(policy, resolver: HostResolver())
    }

    init(_ policy: EgressPolicy, resolver: HostResolver) {
        self.policy = policy
        self.resolver = resolver
    }

    /// Looks the host up.
    ///
    /// - Throws: ``Refusal`` for a forbidden address, `AddressLookup.Failure`, `CancellationError`.
    package func permit(_ url: ProviderURL) async throws {
        let addresses = try await resolver.addresses(of: url.host)
        guard policy.permits(addresses, host: url.host, port: url.port) else {
            throw Refusal(description: "the provider's host has an address that is not public, and not allowed")
        }
        guard policy.permits(host: url.host, port: url.port) else { return }
        // One entry for each host that the operator's patterns permit and manifests name.
        named.withLock { $0["\(url.host):\(url.port)"] = addresses }
    }

    /// Closes a connection to a forbidden address before anything is sent.
    package func check(_ channel: any Channel) -> EventLoopFuture<Void> {
        guard let remote = channel.remoteAddress, let address = remote.ipAddress.flatMap({ IPAddress($0) }) else {
            return refuse(channel)
        }
        if policy.permits(address) { return channel.eventLoop.makeSucceededVoidFuture() }
        let port = remote.port.map(String.init) ?? ""
        let isNamed = named.withLock { named in
            named.contains { $0.key.hasSuffix(":" + port) && $0.value.contains(address) }
        }
        return isNamed ? channel.eventLoop.makeSucceededVoidFuture() : refuse(channel)
    }

    private func refuse(_ channel: any Channel) -> EventLoopFuture<Void> {
        channel.close().flatMapError { _ in channel.eventLoop.makeSucceededVoidFuture() }.flatMapThrowing {
            throw Refusal(description: "the connection leads to an address that is not public, and not allowed")
        }
    }
}
