import Glibc

/// Keeps a port of this host for a listener that is gone for a while: no connection gets it for its own end, and no
/// listener that asks for any port. A socket with `SO_REUSEADDR` can still listen on it, as librdkafka's brokers do.
struct PortReservation: ~Copyable {
    private let descriptor: Int32

    /// Nil when the port is taken.
    init?(port: UInt16) {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        var yes: Int32 = 1
        unsafe setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = unsafe inet_addr("127.0.0.1")
        let answer = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard answer == 0 else {
            close(descriptor)
            return nil
        }
    }

    deinit { close(descriptor) }
}
