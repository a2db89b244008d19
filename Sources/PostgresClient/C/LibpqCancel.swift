import CLibpq
import Synchronization

/// One request to cancel what a connection's server process is doing.
///
/// `PQcancel` opens a connection and waits for its end, so it runs on a thread of its own. When it has ended, the
/// server has signalled the process: what is sent afterwards is safe from the request.
///
/// `@unchecked Sendable`: the pointer is made on the connection's thread, and used by the one thread that `start`
/// makes; the last reference frees it, in `deinit`.
@safe
final class LibpqCancel: @unchecked Sendable {
    private let cancel: OpaquePointer
    private let ended = Atomic<Bool>(false)

    init?(of connection: borrowing LibpqConnection) {
        guard let cancel = unsafe connection.withPointer({ unsafe PQgetCancel($0) }) else { return nil }
        unsafe self.cancel = unsafe cancel
    }

    deinit {
        unsafe PQfreeCancel(cancel)
    }

    var hasEnded: Bool { ended.load(ordering: .acquiring) }

    /// Sends the request; wakes `wakeUp` when done. Call once.
    func start(waking wakeUp: WakeUp) {
        startThread(named: "pg-cancel") {
            // The result does not matter: the statement ends, or the cancel time-out ends the connection.
            unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { message in
                _ = unsafe PQcancel(self.cancel, message.baseAddress, 256)
            }
            self.ended.store(true, ordering: .releasing)
            wakeUp.signal()
        }
    }
}
