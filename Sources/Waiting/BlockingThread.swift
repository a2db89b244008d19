// SPDX-License-Identifier: Apache-2.0

internal import Foundation
internal import Glibc

/// A thread for blocking calls, which must not run in Swift's cooperative pool. The instance is the argument of the new
/// thread, which releases it when it begins.
package final class BlockingThread {
    /// The system's reason not to start a thread.
    package struct Failure: Error {
        package let errorNumber: Int32
    }

    private let name: String
    private let body: @Sendable () -> Void

    private init(name: String, body: @escaping @Sendable () -> Void) {
        (self.name, self.body) = (name, body)
    }

    /// Runs the body on a new, detached thread. The system keeps 15 characters of the name.
    package static func run(_ name: String, _ body: @escaping @Sendable () -> Void) throws(Failure) {
        // Retained for the thread, which takes over the reference.
        let start = unsafe Unmanaged.passRetained(BlockingThread(name: String(name.prefix(15)), body: body))
        var thread = pthread_t()
        let result = unsafe pthread_create(&thread, nil, { unsafe BlockingThread.main($0) }, start.toOpaque())
        guard result == 0 else {
            unsafe start.release()
            throw Failure(errorNumber: result)
        }
        pthread_detach(thread)
    }

    private static func main(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        guard let argument = unsafe argument else { return nil }
        let start = unsafe Unmanaged<BlockingThread>.fromOpaque(argument).takeRetainedValue()
        Thread.current.name = start.name
        start.body()
        return nil
    }
}
