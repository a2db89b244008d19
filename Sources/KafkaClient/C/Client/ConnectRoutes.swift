#if DEBUG
internal import CRdKafka
import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Detours to brokers, in builds for debugging only: the embedded brokers advertise ports of their own, so a proxy that is
/// to cut or delay what is said to them has to be slipped in where the connection is made.
///
/// The environment variable `FRESHET_KAFKA_ROUTES` has pairs of ports of the loopback interface, such as
/// `41001=52001,41002=52002`: a connection to the first is made to the second.
enum ConnectRoutes {
    static let variable = "FRESHET_KAFKA_ROUTES"

    static let all: [UInt16: UInt16] = read(ProcessInfo.processInfo.environment[variable] ?? "")

    static func read(_ text: String) -> [UInt16: UInt16] {
        var routes: [UInt16: UInt16] = [:]
        for pair in text.split(separator: ",") {
            let ports = pair.split(separator: "=").map { UInt16($0) }
            if ports.count == 2, let from = ports[0], let to = ports[1] { routes[from] = to }
        }
        return routes
    }

    /// Has the client take the routes, if there are any.
    static func install(on pointer: OpaquePointer) {
        guard !all.isEmpty else { return }
        unsafe rd_kafka_conf_set_connect_cb(pointer) { socket, address, length, _, _ in
            unsafe ConnectRoutes.connect(socket, to: address, length)
        }
    }

    /// As librdkafka itself connects: without blocking; the number of the error, or 0.
    private static func connect(_ socket: Int32, to address: UnsafePointer<sockaddr>?, _ length: Int32) -> Int32 {
        guard let address = unsafe address else { return EINVAL }
        var answer: Int32
        if unsafe Int32(address.pointee.sa_family) == AF_INET {
            var target = unsafe UnsafeRawPointer(address).loadUnaligned(as: sockaddr_in.self)
            if let port = all[UInt16(bigEndian: target.sin_port)] { target.sin_port = port.bigEndian }
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
