import Dispatch
import NIOCore
import ReloadWorkers
import Synchronization
import WidgetModel

/// Tells before a provider is registered whether the rules of egress permit it. The workers enforce them for each request.
struct ProviderCheck: Sendable {
    /// Limit of a look-up; a host that is not found in time is not refused.
    private static let patience = DispatchTimeInterval.seconds(2)

    private let policy: EgressPolicy

    /// Rules that cannot be read permit nothing; the workers do not start with them.
    init(_ settings: ProviderSettings) {
        policy = (try? EgressPolicy(allowing: settings.allowPrivateNetworks)) ?? EgressPolicy()
    }

    /// Reason why the provider must not be called; nil if it may be, or if its host has no address yet.
    func problem(_ url: ProviderURL) async -> String? {
        let address: IPAddress?
        if let literal = IPAddress(url.host) { address = literal } else { address = await Self.address(of: url) }
        guard let address, !policy.permits([address], host: url.host, port: url.port) else { return nil }
        return "the host has an address that is not public, and providers.allowPrivateNetworks does not list it"
    }

    private static func address(of url: ProviderURL) async -> IPAddress? {
        await withCheckedContinuation { (continuation: CheckedContinuation<IPAddress?, Never>) in
            let isAnswered = Mutex(false)
            let answer: @Sendable (IPAddress?) -> Void = { address in
                let isFirst = isAnswered.withLock { isAnswered in
                    defer { isAnswered = true }
                    return !isAnswered
                }
                if isFirst { continuation.resume(returning: address) }
            }
            DispatchQueue.global().async {
                let found = try? SocketAddress.makeAddressResolvingHost(url.host, port: url.port)
                answer(found?.ipAddress.flatMap { IPAddress($0) })
            }
            DispatchQueue.global().asyncAfter(deadline: .now() + patience) { answer(nil) }
        }
    }
}
