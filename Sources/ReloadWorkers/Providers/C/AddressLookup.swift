import Foundation

/// The system's blocking look-up of host names, for threads outside Swift's cooperative pool.
enum AddressLookup {
    struct Failure: Error, Sendable {
        let message: String
    }

    /// All addresses of a host, in the system's order.
    static func addresses(of host: String) throws(Failure) -> [IPAddress] {
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
            throw Failure(message: unsafe String(cString: gai_strerror(code)))
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
