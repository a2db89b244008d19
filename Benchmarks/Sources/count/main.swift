// SPDX-License-Identifier: Apache-2.0

import CAllocations
import Cases

#if canImport(Glibc)
import Glibc
#elseif canImport(Darwin)
import Darwin
#endif

// `count`: for each case its name, the allocations of one run, their bytes, and how many messages or timelines a run is
// for, with tabs between. `count CASE N` runs one case N times and prints nothing, for a tool that counts the
// instructions of a process.

func fail(_ message: String, _ status: Int32) -> Never {
    _ = write(STDERR_FILENO, message, message.utf8.count)
    exit(status)
}

/// Runs a case; one that does not do all of its work says nothing of what the work costs.
func done(_ measured: MeasuredCase) {
    let answer = measured.run()
    guard answer != measured.expected else { return }
    fail("count: \(measured.name): a run answers \(answer), not \(measured.expected)\n", 70)
}

let arguments = CommandLine.arguments
let cases = try MeasuredCase.all()
if arguments.count == 3, let times = Int(arguments[2]),
    let measured = cases.first(where: { $0.name == arguments[1] })
{
    for _ in 0..<times { done(measured) }
} else if arguments.count == 1 {
    guard freshet_allocations() > 0 else { fail("count: allocations cannot be counted here: that takes glibc\n", 69) }
    for measured in cases {
        for _ in 0..<20 { done(measured) }
        var least = UInt64.max
        var leastBytes = UInt64.max
        for _ in 0..<20 {
            let calls = freshet_allocations()
            let bytes = freshet_allocated_bytes()
            done(measured)
            least = min(least, freshet_allocations() - calls)
            leastBytes = min(leastBytes, freshet_allocated_bytes() - bytes)
        }
        print("\(measured.name)\t\(least)\t\(leastBytes)\t\(measured.items)")
    }
} else {
    fail("usage: count [CASE N]\n", 64)
}
