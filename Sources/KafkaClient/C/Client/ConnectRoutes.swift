#if DEBUG
internal import CRdKafka
internal import Glibc

/// Connections to brokers by the detours of ``KafkaConfiguration/routes``, in debug builds only.
enum ConnectRoutes {
    /// Makes a client, whose opaque pointer is its ``ClientCallbacks``, connect by their routes.
    static func install(on pointer: OpaquePointer) {
        unsafe rd_kafka_conf_set_connect_cb(pointer) { socket, address, length, _, opaque in
            let routes = unsafe ClientCallbacks.from(opaque)?.routes ?? [:]
            return unsafe ConnectRoutes.connect(socket, to: address, length, by: routes)
        }
    }

    /// Connects without blocking, as librdkafka does. Returns the error number, or 0.
    private static func connect(
        _ socket: Int32, to address: UnsafePointer<sockaddr>?, _ length: Int32, by routes: [UInt16: UInt16]
    ) -> Int32 {
        guard let address = unsafe address else { return EINVAL }
        var answer: Int32
        if unsafe Int32(address.pointee.sa_family) == AF_INET {
            var target = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
            if let port = routes[UInt16(bigEndian: target.sin_port)] { target.sin_port = port.bigEndian }
            answer = unsafe withUnsafePointer(to: &target) { pointer in
                unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    unsafe Glibc.connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        } else {
            answer = unsafe Glibc.connect(socket, address, socklen_t(length))
        }
        guard answer != 0, errno != EINPROGRESS else { return 0 }
        return errno
    }
}
#endif
