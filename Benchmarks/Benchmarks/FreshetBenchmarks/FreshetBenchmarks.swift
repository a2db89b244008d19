// SPDX-License-Identifier: Apache-2.0

import Benchmark
import CAllocations
import Cases

/// Allocations of one run, counted by `CAllocations`.
private let allocations = BenchmarkMetric.custom("Allocations", polarity: .prefersSmaller, useScalingFactor: false)
private let allocatedBytes = BenchmarkMetric.custom(
    "Allocated bytes", polarity: .prefersSmaller, useScalingFactor: false)

let benchmarks: @Sendable () -> Void = {
    Benchmark.defaultConfiguration = .init(
        metrics: [allocations, allocatedBytes, .wallClock, .throughput], warmupIterations: 20,
        maxDuration: .seconds(1), maxIterations: 500,
        thresholds: [
            // For two baselines that are compared; `Benchmarks/check` is what holds the numbers in Thresholds/.
            allocations: .init(relative: [.p50: 1]),
            allocatedBytes: .init(relative: [.p50: 5]),
        ])
    do {
        for measured in try MeasuredCase.all() {
            Benchmark(measured.name) { benchmark in
                for _ in benchmark.scaledIterations {
                    benchmark.startMeasurement()
                    let calls = freshet_allocations()
                    let bytes = freshet_allocated_bytes()
                    let answer = measured.run()
                    let (callsAfter, bytesAfter) = (freshet_allocations(), freshet_allocated_bytes())
                    benchmark.stopMeasurement()
                    guard answer == measured.expected else {
                        benchmark.error("a run answers \(answer), not \(measured.expected)")
                        return
                    }
                    benchmark.measurement(allocations, Int(callsAfter - calls))
                    benchmark.measurement(allocatedBytes, Int(bytesAfter - bytes))
                }
            }
        }
    } catch {
        print("no benchmarks: \(error)")
    }
}
