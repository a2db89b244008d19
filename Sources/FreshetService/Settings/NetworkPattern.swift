import NIOCore

/// The forms of `providers.allowPrivateNetworks`: an address, a CIDR block, a host name, or `*.` before one.
enum NetworkPattern {
    static func isValid(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        if parts.count == 2 {
            guard let address = try? SocketAddress(ipAddress: String(parts[0]), port: 0),
                parts[1].allSatisfy({ $0.isASCII && $0.isNumber }), let length = Int(parts[1])
            else { return false }
            return length <= (address.protocol == .inet6 ? 128 : 32)
        }
        guard parts.count == 1, !text.isEmpty else { return false }
        if (try? SocketAddress(ipAddress: text, port: 0)) != nil { return true }
        return isHostName(text.hasPrefix("*.") ? text.dropFirst(2) : text[...])
    }

    private static func isHostName(_ name: Substring) -> Bool {
        let labels = name.split(separator: ".", omittingEmptySubsequences: false)
        // Digits and dots alone are an invalid address.
        guard name.utf8.count <= 253, name.contains(where: \.isLetter) else { return false }
        return labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
        }
    }
}

/// The form of `kafka.bootstrapServers`: `host`, `host:port`, `[ipv6]:port`, perhaps after `protocol://`, by commas.
enum BootstrapServers {
    static func isValid(_ text: String) -> Bool {
        let servers = text.split(separator: ",", omittingEmptySubsequences: true)
        return !servers.isEmpty
            && servers.allSatisfy { server in
                var rest = server.drop { $0 == " " }
                while rest.last == " " { rest.removeLast() }
                if let scheme = rest.firstRange(of: "://") { rest = rest[scheme.upperBound...] }
                return isServer(rest)
            }
    }

    private static func isServer(_ text: Substring) -> Bool {
        guard !text.isEmpty, !text.contains(where: \.isWhitespace) else { return false }
        // Colons in brackets belong to an address.
        let afterHost = text.hasPrefix("[") ? text.drop { $0 != "]" }.dropFirst() : text.drop { $0 != ":" }
        guard afterHost.count < text.count else { return false }
        guard !afterHost.isEmpty else { return true }
        guard afterHost.hasPrefix(":"), let port = Int(afterHost.dropFirst()) else { return false }
        return (1...65_535).contains(port)
    }
}
