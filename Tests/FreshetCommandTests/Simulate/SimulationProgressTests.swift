// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel
import WidgetSimulator

@testable import ProviderTools

struct SimulationProgressTests {
    @Test("The progress names the virtual time, the share of the span, warm-up included, and the requests")
    func text() throws {
        let from = try #require(Timestamp(rfc3339: "2026-06-22T00:00:00Z"))
        var options = SimulationOptions(from: from, days: 3)
        options.warmUpDays = 1
        var progress = SimulationProgress(options, name: "baseline")
        for _ in 0..<1_204 { progress.countRequest(at: from) }
        #expect(progress.text(at: from) == "baseline: simulated until 2026-06-22T00:00:00Z, 25 %, 1,204 requests")
        #expect(SimulationProgress(options).text(at: options.end).contains(", 100 %, 0 requests"))
    }
}
