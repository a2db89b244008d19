#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Addresses to listen on.
enum ListeningHost {
    /// Whether this system has IPv6.
    static var hasIPv6: Bool {
        #if os(Linux)
        FileManager.default.fileExists(atPath: "/proc/net/if_inet6")
        #else
        true
        #endif
    }

    /// The address to bind for a configured one. `::`, all addresses of IPv6 and IPv4, is `0.0.0.0` on a system without
    /// IPv6, so that one configuration fits every system.
    static func bindable(_ host: String, hasIPv6: Bool = hasIPv6) -> String {
        host == "::" && !hasIPv6 ? "0.0.0.0" : host
    }
}
