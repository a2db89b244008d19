// SPDX-License-Identifier: Apache-2.0

package import NIOCore
import NIOPosix
import Synchronization
import Waiting
package import WidgetModel
import WidgetStore

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
    /// - Throws: ``Refusal`` for a forbidden address, `IPAddress.LookupFailure`, `CancellationError`.
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

/// Addresses to which provider requests may go: public ones and those on the operator's list, so that providers cannot
/// make Freshet call into the operator's network.
package struct EgressPolicy: Sendable, Hashable {
    private struct HostPattern: Hashable, Sendable {
        let name: String
        let coversSubdomains: Bool
        let port: Int?

        func matches(host: String, port: Int) -> Bool {
            guard self.port == nil || self.port == port else { return false }
            return coversSubdomains ? host.hasSuffix("." + name) : host == name
        }
    }

    private var blocks: [AddressBlock] = []
    private var hosts: [HostPattern] = []

    /// Permits only public addresses.
    package init() {}

    /// - Parameter patterns: addresses, CIDR blocks, host names (`provider.internal`, `*.internal`, `localhost:8080`).
    package init(allowing patterns: [String]) throws(ModelError) {
        for pattern in patterns {
            if let block = AddressBlock(pattern) {
                blocks.append(block)
            } else if let host = Self.host(pattern) {
                hosts.append(host)
            } else {
                throw ModelError(
                    message: "\"\(pattern)\" is not an address, a CIDR block, or a host name (with `*.` before it or "
                        + "`:port` after it)")
            }
        }
    }

    private static func host(_ pattern: String) -> HostPattern? {
        let parts = pattern.lowercased().split(separator: ":", omittingEmptySubsequences: false)
        guard let first = parts.first, parts.count <= 2 else { return nil }
        var port: Int?
        if parts.count == 2 {
            guard parts[1].allSatisfy({ $0.isASCII && $0.isNumber }), let number = Int(parts[1]) else { return nil }
            port = number
        }
        let coversSubdomains = first.hasPrefix("*.")
        let name = coversSubdomains ? first.dropFirst(2) : first
        // Digits and dots alone are an invalid address, not a name.
        guard name.contains(where: \.isLetter), !name.contains(".."), !name.hasPrefix("-"),
            name.allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "-._".contains($0)) })
        else { return nil }
        return HostPattern(name: String(name), coversSubdomains: coversSubdomains, port: port)
    }

    /// Whether a host may have any address.
    func permits(host: String, port: Int) -> Bool {
        hosts.contains { $0.matches(host: host, port: port) }
    }

    /// Whether requests may go to an address, whatever the host's name.
    package func permits(_ address: IPAddress) -> Bool {
        address.isPublic || blocks.contains { $0.contains(address) }
    }

    /// Returns true if requests may go to a host: its name, or each of its addresses, must be permitted.
    package func permits(_ addresses: [IPAddress], host: String, port: Int) -> Bool {
        !addresses.isEmpty && (permits(host: host, port: port) || addresses.allSatisfy { permits($0) })
    }
}

/// Looks up host names on NIO's threads for blocking calls, and caches the answers for a while.
///
/// Concurrent look-ups of a name share one, and a waiter can be cancelled. Failures are cached for a shorter time, so
/// that a name with hanging servers blocks at most one thread.
package final class HostResolver: Sendable {
    typealias Lookup = @Sendable (String) throws(IPAddress.LookupFailure) -> [IPAddress]
    private typealias Known = (
        answer: Result<[IPAddress], IPAddress.LookupFailure>, at: ContinuousClock.Instant,
        until: ContinuousClock.Instant
    )

    private let state = Mutex((known: [String: Known](), underWay: Set<String>()))
    private let answered = Signal()
    private let lifetime: Duration
    private let failureLifetime: Duration
    /// Number of cached names at which expired ones are removed.
    private let maximumKnown = 4_096
    private let threads: NIOThreadPool
    private let lookup: Lookup

    init(
        lifetime: Duration = .seconds(30), failureLifetime: Duration = .seconds(5),
        threads: NIOThreadPool = .singleton,
        lookup: @escaping Lookup = { host throws(IPAddress.LookupFailure) in try IPAddress.addresses(of: host) }
    ) {
        (self.lifetime, self.failureLifetime, self.threads, self.lookup) = (lifetime, failureLifetime, threads, lookup)
    }

    package convenience init() {
        self.init(lifetime: .seconds(30))
    }

    /// All addresses of a host.
    ///
    /// - Throws: `IPAddress.LookupFailure` without any; `CancellationError`.
    package func addresses(of host: String) async throws -> [IPAddress] {
        let began = ContinuousClock.now
        while true {
            let version = answered.version
            let (known, isFirst) = state.withLock { state -> (Known?, Bool) in
                if let known = state.known[host], known.at >= began || known.until > .now {
                    return (known, false)
                }
                return (nil, state.underWay.insert(host).inserted)
            }
            if let known { return try known.answer.get() }
            if isFirst { submit(host) }
            try await answered.wait(past: version)
        }
    }

    private func submit(_ host: String) {
        threads.submit { [self] threadState in
            let answer = Result { () throws(IPAddress.LookupFailure) in
                guard threadState == .active else { throw IPAddress.LookupFailure(message: "shutting down") }
                return try lookup(host)
            }
            let now = ContinuousClock.now
            let lifetime = if case .success = answer { self.lifetime } else { failureLifetime }
            state.withLock { state in
                state.underWay.remove(host)
                state.known[host] = (answer, now, now + lifetime)
                if state.known.count > maximumKnown { state.known = state.known.filter { $0.value.until > now } }
            }
            answered.signal()
        }
    }
}
