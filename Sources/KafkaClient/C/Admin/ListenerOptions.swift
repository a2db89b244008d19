import Glibc

/// Options of listeners that the library opens without letting anybody set them.
enum ListenerOptions {
    /// Sets `TCP_NODELAY` on this process's listeners at these ports, from which accepted sockets inherit it.
    ///
    /// Without it the embedded broker's answers wait for the acknowledgement of those before (Nagle's algorithm), which a
    /// client that has nothing to send holds back for 40 ms: two fetches in a second took that long.
    static func sendAtOnce(ports: Set<UInt16>) {
        for descriptor in listeners(at: ports) {
            var yes: Int32 = 1
            unsafe setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        }
    }

    /// The listeners of this process that are bound to the ports.
    static func listeners(at ports: Set<UInt16>) -> [Int32] {
        descriptors().filter { port(of: $0).map(ports.contains) ?? false }
    }

    /// Open descriptors of this process.
    private static func descriptors() -> [Int32] {
        guard let directory = unsafe opendir("/proc/self/fd") else { return [] }
        defer { unsafe closedir(directory) }
        var descriptors: [Int32] = []
        while let entry = unsafe readdir(directory) {
            let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
                unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe atoi($0) }
            }
            // "." and ".." are 0, which is no listener of ours.
            if name > 0 { descriptors.append(name) }
        }
        return descriptors
    }

    /// The port that a listener is bound to; nil for everything else.
    private static func port(of descriptor: Int32) -> UInt16? {
        var isListener: Int32 = 0
        var size = socklen_t(MemoryLayout<Int32>.size)
        guard unsafe getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &isListener, &size) == 0, isListener != 0 else {
            return nil
        }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let answer = unsafe withUnsafeMutablePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe getsockname(descriptor, $0, &length)
            }
        }
        guard answer == 0, address.sin_family == sa_family_t(AF_INET) else { return nil }
        return UInt16(bigEndian: address.sin_port)
    }
}
