#if DEBUG
internal import CRdKafka

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Detours to brokers by ``KafkaConfiguration/routes``, in debug builds only.
enum ConnectRoutes {
    /// Has a client with ``ClientCallbacks`` as its opaque pointer connect by their routes.
    static func install(on pointer: OpaquePointer) {
        unsafe rd_kafka_conf_set_connect_cb(pointer) { socket, address, length, _, opaque in
            let routes = unsafe ClientCallbacks.from(opaque)?.routes ?? [:]
            return unsafe ConnectRoutes.connect(socket, to: address, length, by: routes)
        }
    }

    /// As librdkafka itself connects: without blocking; the number of the error, or 0.
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
                    unsafe systemConnect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        } else {
            answer = unsafe systemConnect(socket, address, socklen_t(length))
        }
        guard answer != 0, errno != EINPROGRESS else { return 0 }
        return errno
    }

    private static func systemConnect(
        _ socket: Int32, _ address: UnsafePointer<sockaddr>, _ length: socklen_t
    ) -> Int32 {
        #if canImport(Glibc)
        unsafe Glibc.connect(socket, address, length)
        #elseif canImport(Musl)
        unsafe Musl.connect(socket, address, length)
        #else
        unsafe Darwin.connect(socket, address, length)
        #endif
    }
}
#endif
