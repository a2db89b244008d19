// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Testing

@testable import freshet

struct CapacityTests {
    @Test("Resources grow in proportion to the number of widgets")
    func decades() throws {
        let plans = try [1e6, 1e7, 1e8].map { widgets in
            var plan = try CapacityCommand.parse([])
            plan.widgets = widgets
            return plan
        }
        for (small, large) in zip(plans, plans.dropFirst()) {
            #expect(abs(large.peakReloads / small.peakReloads - 10) < 0.001)
            #expect(abs(large.storedBytes / small.storedBytes - 10) < 0.001)
            #expect(abs(large.databaseCores / small.databaseCores - 10) < 0.001)
            #expect(large.partitions >= small.partitions && large.databases >= small.databases)
        }
        #expect(plans[0].databases == 1 && plans[0].partitions == 12)
    }

    @Test("Concurrent requests follow from their rate and latency")
    func concurrency() throws {
        var plan = try CapacityCommand.parse([])
        let before = plan.providerConcurrency
        plan.providerLatency *= 10
        #expect(plan.providerConcurrency >= before * 9)
        #expect(plan.figures.last?.value == Double(plan.providerConcurrency))
    }
}
