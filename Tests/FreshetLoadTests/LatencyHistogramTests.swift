// SPDX-License-Identifier: Apache-2.0

import Histogram
import JSON
import Testing
import WidgetModel

@testable import FreshetService
@testable import freshet_load

struct LatencyHistogramTests {
    @Test("Percentiles are in milliseconds with three digits; times over ten minutes count as ten")
    func percentiles() {
        var histogram = Histogram<UInt32>.latencies()
        #expect(histogram.summary == LatencySummary())
        for milliseconds in 1...100 { histogram.record(.milliseconds(milliseconds)) }
        let summary = histogram.summary
        #expect(summary.samples == 100)
        for (value, expected) in [(summary.p50, 50.0), (summary.p90, 90), (summary.p99, 99), (summary.max, 100)] {
            #expect(abs(value - expected) <= expected * 0.002)
        }
        histogram.record(.seconds(10_000))
        histogram.record(.seconds(-1))
        #expect(histogram.summary.samples == 102)
        #expect(abs(histogram.summary.max - 600_000) < 1_000)
    }

    @Test("A ratio needs samples on both sides")
    func ratio() {
        let alone = LatencySummary(samples: 10, p99: 20)
        #expect(LatencySummary(samples: 5, p99: 30).ratio(to: alone) == 1.5)
        #expect(LatencySummary().ratio(to: alone) == nil)
        #expect(alone.ratio(to: LatencySummary()) == nil)
        #expect(JSONValue.rounded(alone.ratio(to: LatencySummary())) == .null)
    }
}

struct FigureTests {
    @Test("Figures are short and have three digits")
    func figures() {
        #expect(Figure.short(0) == "0" && Figure.short(999.4) == "999" && Figure.short(999.6) == "1k")
        #expect(Figure.short(12_345) == "12.3k" && Figure.short(4_560_000) == "4.56M")
        #expect(Figure.bytes(512) == "512 B" && Figure.bytes(98_765_432) == "98.8 MB")
        #expect(Figure.digits(2.1) == "2.1" && Figure.digits(0.25) == "0.25" && Figure.digits(.nan) == "–")
        #expect(Figure.time(45) == "45 s" && Figure.time(125) == "2:05" && Figure.time(3_725) == "1:02:05")
    }
}
