import Foundation
import Synchronization

/// Runs deeply recursive code on a thread with a large stack. Other threads may have only 512 KiB (macOS) or 128 KiB
/// (musl).
enum LargeStack {
    static let bytes = 16 * 1024 * 1024

    private final class Box<Value: Sendable>: Sendable {
        let value = Mutex<Value?>(nil)
        let isDone = DispatchSemaphore(value: 0)
    }

    /// Waits for `body`, blocking its thread.
    static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) -> Value {
        let box = Box<Value>()
        let thread = Thread {
            let value = body()
            box.value.withLock { $0 = value }
            box.isDone.signal()
        }
        thread.stackSize = bytes
        thread.start()
        while true {
            box.isDone.wait()
            if let value = box.value.withLock({ $0 }) { return value }
        }
    }
}
