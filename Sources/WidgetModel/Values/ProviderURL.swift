// SPDX-License-Identifier: Apache-2.0

import JSON

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// Address of an app's timeline provider: an absolute `http` or `https` URL with host, optional port and path.
///
/// The host is not resolved here; the rules of egress apply when a connection is made.
package struct ProviderURL: Hashable, Sendable, CustomStringConvertible {
    /// Longest URL, in bytes.
    package static let maximumBytes = 2048

    /// Whether the scheme is `https`.
    package let isSecure: Bool
    /// Lower-case name, dotted IPv4 address, or IPv6 address without brackets.
    package let host: String
    package let port: Int
    /// Starts with `/` unless it is empty; never ends with one.
    package let path: String
    /// Whether `host` is an IPv6 address.
    package let isIPv6: Bool

    /// - Throws: `ModelError` for an invalid URL.
    package init(_ text: String) throws(ModelError) {
        guard text.utf8.count <= Self.maximumBytes else {
            throw ModelError(message: "URL longer than \(Self.maximumBytes) bytes")
        }
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && !"\"<>\\^`{|}".utf8.contains($0) }) else {
            throw ModelError(message: "URL with a character that must be percent-encoded: \(Text.quoted(text))")
        }
        guard !text.contains("#") else { throw ModelError(message: "URL with a fragment") }
        guard !text.contains("?") else { throw ModelError(message: "URL with a query") }
        let separator = text.firstRange(of: "://")
        let scheme = separator.map { text[..<$0.lowerBound].lowercased() }
        guard let separator, scheme == "http" || scheme == "https" else {
            throw ModelError(message: "expected an http or https URL, found \(Text.quoted(text))")
        }
        let rest = text[separator.upperBound...]
        let authority = rest.prefix { $0 != "/" }
        guard !authority.contains("@") else { throw ModelError(message: "URL with user information") }
        let (host, port, isIPv6) = try Self.split(String(authority))
        isSecure = scheme == "https"
        self.host = host
        self.isIPv6 = isIPv6
        self.port = try port.map(Self.number) ?? Self.defaultPort(isSecure)
        path = try Self.path(rest[authority.endIndex...])
    }

    private static func defaultPort(_ isSecure: Bool) -> Int { isSecure ? 443 : 80 }

    /// The URL in its normal form.
    package var description: String { appending("") }

    /// The URL of a path below this one, such as `/timelines`.
    package func appending(_ suffix: String) -> String {
        let authority = isIPv6 ? "[\(host)]" : host
        let portText = port == Self.defaultPort(isSecure) ? "" : ":\(port)"
        return "\(isSecure ? "https" : "http")://\(authority)\(portText)\(path)\(suffix)"
    }

    private static func split(_ authority: String) throws(ModelError) -> (host: String, port: String?, isIPv6: Bool) {
        if authority.hasPrefix("[") {
            guard let close = authority.firstIndex(of: "]") else {
                throw ModelError(message: "unterminated IPv6 address")
            }
            let address = authority[authority.index(after: authority.startIndex)..<close].lowercased()
            let after = authority[authority.index(after: close)...]
            guard Self.isIPv6(address) else {
                throw ModelError(message: "invalid IPv6 address \(Text.quoted(address))")
            }
            guard after.isEmpty || after.hasPrefix(":") else {
                throw ModelError(message: "unexpected characters after the IPv6 address")
            }
            return (address, after.isEmpty ? nil : String(after.dropFirst()), true)
        }
        let parts = authority.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let host = parts[0].lowercased()
        guard Self.isName(host) || Self.isIPv4(host) else {
            throw ModelError(message: "invalid host \(Text.quoted(host))")
        }
        return (host, parts.count > 1 ? String(parts[1]) : nil, false)
    }

    private static func number(_ port: String) throws(ModelError) -> Int {
        guard !port.isEmpty, port.utf8.count <= 5, port.utf8.allSatisfy(\.isASCIIDigit),
            let number = Int(port), (1...65_535).contains(number)
        else {
            throw ModelError(message: "expected a port from 1 to 65535, found \(Text.quoted(port))")
        }
        return number
    }

    private static func path(_ text: Substring) throws(ModelError) -> String {
        let segments = text.split(separator: "/")
        for segment in segments {
            let decoded = segment.lowercased().split(separator: "%2e", omittingEmptySubsequences: false).joined(
                separator: ".")
            guard decoded != ".", decoded != ".." else { throw ModelError(message: "URL path with dot segments") }
        }
        guard !text.contains("//") else { throw ModelError(message: "URL path with an empty segment") }
        return segments.map { "/" + $0 }.joined()
    }
}

/// Syntax of hosts (RFC 3986, RFC 1123, RFC 4291).
extension ProviderURL {
    /// Labels of letters, digits and inner hyphens. The last label must not look like a number, since resolvers take
    /// such names for IPv4 addresses.
    fileprivate static func isName(_ host: String) -> Bool {
        guard host.utf8.count <= 253 else { return false }
        var labels = host.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        if labels.count > 1, labels[labels.count - 1].isEmpty { labels.removeLast() }
        guard let last = labels.last, !looksNumeric(last) else { return false }
        return labels.allSatisfy { label in
            guard (1...63).contains(label.count), label.first != UInt8(ascii: "-"), label.last != UInt8(ascii: "-")
            else { return false }
            return label.allSatisfy { byte in
                (97...122).contains(byte) || byte.isASCIIDigit || "-_".utf8.contains(byte)
            }
        }
    }

    private static func looksNumeric(_ label: some Collection<UInt8>) -> Bool {
        if label.starts(with: "0x".utf8) { return label.dropFirst(2).allSatisfy { $0.hexadecimalDigit != nil } }
        return label.allSatisfy(\.isASCIIDigit)
    }

    /// Four decimal numbers up to 255 without leading zeros.
    fileprivate static func isIPv4(_ host: String) -> Bool {
        var address = in_addr()
        return inet_pton(AF_INET, host, &address) == 1
    }

    /// Eight groups of hexadecimal digits, `::` for a run of zero groups, the last two optionally as IPv4; without a
    /// zone.
    fileprivate static func isIPv6(_ host: String) -> Bool {
        var address = in6_addr()
        return inet_pton(AF_INET6, host, &address) == 1
    }
}
