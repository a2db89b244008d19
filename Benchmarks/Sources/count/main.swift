import CAllocations
import Cases

// `count`: for each case its name, the allocations of one run, their bytes, and how many messages or timelines a run is for,
// with tabs between. `count CASE N` runs one case N times and prints nothing, for a tool that counts the instructions of a
// process.

let arguments = CommandLine.arguments
let cases = try MeasuredCase.all()
var sum = 0
if arguments.count == 3, let times = Int(arguments[2]),
    let measured = cases.first(where: { $0.name == arguments[1] })
{
    for _ in 0..<times { sum &+= measured.run() }
} else {
    for measured in cases {
        for _ in 0..<20 { sum &+= measured.run() }
        var least = UInt64.max
        var leastBytes = UInt64.max
        for _ in 0..<20 {
            let calls = freshet_allocations()
            let bytes = freshet_allocated_bytes()
            sum &+= measured.run()
            least = min(least, freshet_allocations() - calls)
            leastBytes = min(leastBytes, freshet_allocated_bytes() - bytes)
        }
        print("\(measured.name)\t\(least)\t\(leastBytes)\t\(measured.items)")
    }
}
// What came of it is looked at, so that it must be done.
if sum == Int.min { print("") }
