// SPDX-License-Identifier: Apache-2.0

import Foundation
import Fuzzing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Watches the process for hangs, memory and signals.
enum FuzzWatch {
    /// Limit of the process's peak memory in kilobytes.
    static let memoryLimit = 256 * 1024

    /// For the signal handler, which takes no context. Set once, before the second thread starts.
    nonisolated(unsafe) private static var recorder: InputRecorder?
    /// Previous signal actions, by signal number.
    nonisolated(unsafe) private static let before = UnsafeMutablePointer<sigaction>.allocate(capacity: 32)

    /// Ends the process when an input hangs or memory exceeds the limit.
    ///
    /// - Parameter limit: Time limit in seconds.
    static func start(_ recorder: InputRecorder, limit: Int) {
        self.recorder = recorder
        Thread.detachNewThread {
            var last = (sequence: recorder.sequence, since: ContinuousClock.now)
            while true {
                usleep(100_000)
                if peakMemory() > memoryLimit {
                    recorder.report("TOO MUCH MEMORY")
                    _exit(4)
                }
                let now = recorder.sequence
                if now != last.sequence {
                    last = (now, ContinuousClock.now)
                } else if now > 0, ContinuousClock.now - last.since > .seconds(limit) {
                    recorder.report("HANG")
                    _exit(3)
                }
            }
        }
    }

    /// Reports the input when a signal ends the process. The handler has its own stack, for this thread.
    static func catchSignals() {
        var stack = stack_t()
        stack.ss_size = 64 * 1024
        stack.ss_sp = UnsafeMutableRawPointer.allocate(byteCount: 64 * 1024, alignment: 16)
        sigaltstack(&stack, nil)
        for signal in [SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGBUS, SIGSEGV] {
            var action = sigaction()
            #if canImport(Darwin)
            action.__sigaction_u.__sa_handler = handler
            #else
            action.__sigaction_handler.sa_handler = handler
            #endif
            action.sa_flags = Int32(truncatingIfNeeded: SA_ONSTACK)
            sigaction(signal, &action, before + Int(signal))
        }
    }

    private static let handler: @convention(c) (Int32) -> Void = { signal in
        // The fault repeats when the handler returns, and then meets the previous action.
        sigaction(signal, FuzzWatch.before + Int(signal), nil)
        FuzzWatch.recorder?.report("CRASH")
    }

    /// Peak memory in kilobytes.
    static func peakMemory() -> Int {
        #if canImport(Darwin)
        var usage = rusage()
        getrusage(RUSAGE_SELF, &usage)
        return usage.ru_maxrss / 1024
        #else
        // getrusage would include the parent's memory.
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmHWM:") })
        else { return 0 }
        return Int(line.filter(\.isNumber)) ?? 0
        #endif
    }
}
