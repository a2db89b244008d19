// SPDX-License-Identifier: Apache-2.0

import Foundation

/// A file descriptor that any thread can make readable, so that one thread can wait for a socket and for others.
final class WakeUp: Sendable {
    private let readEnd: Int32
    private let writeEnd: Int32

    init() throws(PostgresError) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw PostgresError(.connection, "no descriptor for a connection: error \(errno)")
        }
        for end in ends {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        self.readEnd = ends[0]
        self.writeEnd = ends[1]
    }

    deinit {
        close(readEnd)
        close(writeEnd)
    }

    /// Makes the current or the next wait end at once.
    func signal() {
        // A pipe that is full is readable already.
        var one: UInt8 = 1
        _ = unsafe write(writeEnd, &one, 1)
    }

    struct Events: OptionSet {
        let rawValue: Int

        static let readable = Events(rawValue: 1)
        static let writable = Events(rawValue: 2)
        static let woken = Events(rawValue: 4)
    }

    /// Waits until `socket` is ready for one of `events`, or for a signal, which it takes, or for `deadline`.
    /// - Returns: The events; none at the deadline. An error on the socket counts as readable.
    func wait(socket: Int32?, for events: Events, until deadline: ContinuousClock.Instant?) -> Events {
        var interest: Int32 = 0
        if events.contains(.readable) { interest |= Int32(POLLIN) }
        if events.contains(.writable) { interest |= Int32(POLLOUT) }
        // The kernel ignores a negative descriptor.
        var descriptors = (
            pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0),
            pollfd(fd: socket ?? -1, events: Int16(interest), revents: 0)
        )
        let count = unsafe withUnsafeMutableBytes(of: &descriptors) { bytes in
            unsafe bytes.withMemoryRebound(to: pollfd.self) { descriptors in
                unsafe poll(descriptors.baseAddress, 2, Self.milliseconds(until: deadline))
            }
        }
        var happened: Events = []
        guard count > 0 else { return happened }
        if descriptors.0.revents != 0 {
            happened.insert(.woken)
            drain()
        }
        let ready = Int32(descriptors.1.revents)
        if ready & Int32(POLLOUT) != 0 { happened.insert(.writable) }
        if ready & ~Int32(POLLOUT) != 0 { happened.insert(.readable) }
        return happened
    }

    /// Whether something waits to be read on `socket`, its end included.
    static func hasInput(socket: Int32) -> Bool {
        var descriptor = pollfd(fd: socket, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&descriptor, 1, 0) != 0
    }

    private func drain() {
        var buffer: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        _ = unsafe read(readEnd, &buffer, MemoryLayout.size(ofValue: buffer))
    }

    /// Rounded up, so that the deadline has passed when the wait ends.
    private static func milliseconds(until deadline: ContinuousClock.Instant?) -> Int32 {
        guard let deadline else { return -1 }
        let remaining = ContinuousClock.now.duration(to: deadline)
        guard remaining > .zero else { return 0 }
        let (seconds, attoseconds) = remaining.components
        guard seconds < 1_000_000 else { return 1_000_000_000 }
        return Int32(seconds * 1000 + attoseconds / 1_000_000_000_000_000 + 1)
    }
}

/// A value that one thread at a time sees.
///
/// `Synchronization.Mutex` would do, were it not that the thread sanitizer does not see its slow path on Linux (the
/// kernel hands the lock over, in code that is not instrumented), and reports every contended use as a race.
///
/// `@unchecked Sendable`: the value is only touched under the lock.
package final class Locked<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var value: Value

    package init(_ value: Value) {
        self.value = value
    }

    /// Lends the value. Keep it short, and never wait inside.
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&value)
    }
}
