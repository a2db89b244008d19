import CLibpq
import Foundation

/// Runs `body` on a new, detached thread.
func startThread(named name: String, _ body: @escaping @Sendable () -> Void) throws(PostgresError) {
    /// Retained until the thread takes it, as its first act; or until the thread turns out not to start.
    final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    var attributes = pthread_attr_t()
    unsafe pthread_attr_init(&attributes)
    defer { unsafe pthread_attr_destroy(&attributes) }
    unsafe pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    let start = unsafe Unmanaged.passRetained(Start(name: name, body: body))
    #if canImport(Darwin)
    var thread: pthread_t?
    let answer = unsafe pthread_create(
        &thread, &attributes,
        { context in
            let start = unsafe Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
            unsafe pthread_setname_np(start.name)
            start.body()
            return nil
        }, start.toOpaque())
    #else
    var thread = pthread_t()
    let answer = unsafe pthread_create(
        &thread, &attributes,
        { context in
            guard let context = unsafe context else { return nil }
            let start = unsafe Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
            unsafe clibpq_name_thread(start.name)
            start.body()
            return nil
        }, start.toOpaque())
    #endif
    guard answer == 0 else {
        unsafe start.release()
        throw PostgresError(.connection, "no thread for a connection: error \(answer)")
    }
}
