/// Addresses to which provider requests may go: public ones and those on the operator's list, so that providers cannot
/// make Freshet call into the operator's network.
package struct EgressPolicy: Sendable, Hashable {
    /// An invalid entry of the list.
    package struct InvalidPattern: Error, Sendable, CustomStringConvertible {
        package let pattern: String
        package var description: String {
            "\"\(pattern)\" is not an address, a CIDR block, or a host name (with `*.` before it or `:port` after it)"
        }
    }

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
    package init(allowing patterns: [String]) throws(InvalidPattern) {
        for pattern in patterns {
            if let block = AddressBlock(pattern) {
                blocks.append(block)
            } else if let host = Self.host(pattern) {
                hosts.append(host)
            } else {
                throw InvalidPattern(pattern: pattern)
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

    /// Whether requests may go to a host with these addresses, all of which have to be permitted.
    package func permits(_ addresses: [IPAddress], host: String, port: Int) -> Bool {
        !addresses.isEmpty && (permits(host: host, port: port) || addresses.allSatisfy { permits($0) })
    }
}
