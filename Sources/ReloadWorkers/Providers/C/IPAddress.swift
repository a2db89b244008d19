// SPDX-License-Identifier: Apache-2.0

import Foundation

/// An IP address as a number. An IPv4 address mapped or embedded in IPv6 is the IPv4 address, since packets go there.
package struct IPAddress: Hashable, Sendable {
    package enum Family: Hashable, Sendable {
        case v4
        case v6
    }

    package let family: Family
    /// Network order; an IPv4 address has its 32 bits in the low word.
    let high: UInt64
    let low: UInt64

    /// Parses dotted decimal, or an IPv6 address without brackets and zone.
    package init?(_ text: String) {
        var v4 = in_addr_t(0)
        var v6 = (UInt64(0), UInt64(0))
        if unsafe inet_pton(AF_INET, text, &v4) == 1 {
            self.init(v4: UInt32(bigEndian: v4))
        } else if unsafe inet_pton(AF_INET6, text, &v6) == 1 {
            self.init(v6: UInt64(bigEndian: v6.0), UInt64(bigEndian: v6.1))
        } else {
            return nil
        }
    }

    init(v4: UInt32) {
        family = .v4
        high = 0
        low = UInt64(v4)
    }

    init(v6 high: UInt64, _ low: UInt64) {
        let isMapped = high == 0 && low >> 32 == 0xFFFF
        let isTranslated = high == 0x0064_FF9B_0000_0000 && low >> 32 == 0
        let isSixToFour = high >> 48 == 0x2002
        if isMapped || isTranslated {
            self.init(v4: UInt32(truncatingIfNeeded: low))
        } else if isSixToFour {
            self.init(v4: UInt32(truncatingIfNeeded: high >> 16))
        } else {
            self.init(plain: high, low)
        }
    }

    private init(plain high: UInt64, _ low: UInt64) {
        family = .v6
        self.high = high
        self.low = low
    }
}

/// Block of addresses with common first bits.
package struct AddressBlock: Hashable, Sendable {
    let base: IPAddress
    /// Number of common bits, up to 32 or 128 by the family.
    let prefixLength: Int

    package init?(_ text: String) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        guard let base = IPAddress(String(parts[0])) else { return nil }
        let width = base.family == .v4 ? 32 : 128
        guard parts.count == 2 else {
            self.init(base: base, prefixLength: width)
            return
        }
        // A block of mapped addresses would have its length counted in the other family's bits.
        guard (base.family == .v6) == parts[0].contains(":"),
            parts[1].allSatisfy({ $0.isASCII && $0.isNumber }), let length = Int(parts[1]), length <= width
        else { return nil }
        self.init(base: base, prefixLength: length)
    }

    private init(base: IPAddress, prefixLength: Int) {
        self.base = base
        self.prefixLength = prefixLength
    }

    package func contains(_ address: IPAddress) -> Bool {
        guard address.family == base.family else { return false }
        switch base.family {
        case .v4:
            return prefixLength == 0 || (address.low ^ base.low) >> UInt64(32 - prefixLength) == 0
        case .v6:
            let highBits = min(prefixLength, 64)
            let lowBits = prefixLength - highBits
            return (highBits == 0 || (address.high ^ base.high) >> UInt64(64 - highBits) == 0)
                && (lowBits == 0 || (address.low ^ base.low) >> UInt64(64 - lowBits) == 0)
        }
    }
}

extension IPAddress {
    /// Blocks without public hosts (IANA's special-purpose registries): this network, private, shared, loopback,
    /// link-local, protocol assignments, documentation, benchmarking, multicast, reserved.
    private static let specialV4: [AddressBlock] = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    ].compactMap { AddressBlock($0) }

    /// Public block of IPv6.
    private static let globalV6: [AddressBlock] = ["2000::/3"].compactMap { AddressBlock($0) }
    /// Exceptions in it: protocol assignments with Teredo, and documentation.
    private static let specialV6: [AddressBlock] = ["2001::/23", "2001:db8::/32", "3fff::/20"]
        .compactMap { AddressBlock($0) }

    /// Whether it is the address of a host on the public internet.
    package var isPublic: Bool {
        switch family {
        case .v4: !Self.specialV4.contains { $0.contains(self) }
        case .v6: Self.globalV6.contains { $0.contains(self) } && !Self.specialV6.contains { $0.contains(self) }
        }
    }
}

extension IPAddress {
    struct LookupFailure: Error, Sendable {
        let message: String
    }

    /// All addresses of a host, in the system's order, by its blocking look-up: for threads outside Swift's cooperative
    /// pool.
    static func addresses(of host: String) throws(LookupFailure) -> [IPAddress] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = AF_UNSPEC
        #if os(Linux)
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        #else
        unsafe hints.ai_socktype = SOCK_STREAM
        #endif
        var first: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(host, nil, &hints, &first)
        // The list belongs to this call.
        defer {
            if let first = unsafe first { unsafe freeaddrinfo(first) }
        }
        guard code == 0 else {
            throw LookupFailure(message: unsafe String(cString: gai_strerror(code)))
        }
        var addresses: [IPAddress] = []
        var next = unsafe first
        while let info = unsafe next {
            if let address = unsafe address(info.pointee) { addresses.append(address) }
            unsafe next = info.pointee.ai_next
        }
        return addresses
    }

    /// Reads the address behind the family, the port and, in IPv6, the flow label.
    private static func address(_ info: addrinfo) -> IPAddress? {
        guard let pointer = unsafe info.ai_addr else { return nil }
        let socket = UnsafeRawPointer(pointer)
        switch unsafe (info.ai_family, Int(info.ai_addrlen)) {
        case (AF_INET, 8...):
            return unsafe IPAddress(v4: UInt32(bigEndian: socket.loadUnaligned(fromByteOffset: 4, as: UInt32.self)))
        case (AF_INET6, 24...):
            return unsafe IPAddress(
                v6: UInt64(bigEndian: socket.loadUnaligned(fromByteOffset: 8, as: UInt64.self)),
                UInt64(bigEndian: socket.loadUnaligned(fromByteOffset: 16, as: UInt64.self)))
        default:
            return nil
        }
    }
}
