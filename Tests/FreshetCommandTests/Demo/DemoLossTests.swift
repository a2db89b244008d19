// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetModel

@testable import WidgetStore
@testable import freshet

struct DemoLossTests {
    /// Findings of the demo; by default, two correct timelines of one user.
    private struct Findings {
        var due: Int64 = 0
        var stale: Int64 = 0
        var waiting: Int64 = 0
        var stored: Int64 = 2
        var leased: Int64 = 0
        var sweeps: Int64 = 0
        var deadLetters: Int64 = 0
        var revisions: [String: Int64] = ["a": 3, "b": 7]
        var published = 9
        var applied = 9
        var failures = 0
        var expected = 2

        var lost: [String] {
            Demo.lost(
                overview: Overview(
                    widgets: 2, timelines: 2, due: due, leased: leased, stale: stale, waiting: waiting,
                    stored: stored,
                    requested: 5, sweeps: sweeps, deadLetters: deadLetters,
                    deadLettersToForward: 0),
                output: (0, revisions), events: (published, applied), failures: failures, expectedTimelines: expected)
        }
    }

    /// Returns the losses with one value changed.
    private func lost(_ change: (inout Findings) -> Void) -> [String] {
        var findings = Findings()
        change(&findings)
        return findings.lost
    }

    @Test("Nothing is lost when everything is applied, rendered, stored and published")
    func right() {
        #expect(Findings().lost == [])
    }

    @Test("Events that are not acknowledged or not applied are losses")
    func events() {
        #expect(lost { $0.failures = 4 } == ["4 events were not acknowledged by Kafka"])
        #expect(lost { $0.applied = 8 } == ["9 events were published, 8 are applied"])
        #expect(lost { $0.applied = 10 } == ["9 events were published, 10 are applied"])
    }

    @Test("Timelines that are not stored or not published are losses")
    func timelines() {
        #expect(lost { $0.expected = 3 } == ["3 distinct timelines expected, 2 are stored"])
        #expect(lost { $0.leased = 1 } == ["1 timelines are in lists that have not ended"])
        let short = ["2 timelines are stored, 1 were seen on the output topic"]
        #expect(lost { $0.revisions["b"] = nil } == short)
        // A tombstone is not a timeline.
        #expect(lost { $0.revisions["b"] = -7 } == short)
    }

    @Test("Unfinished sweeps and dead letters are losses")
    func leftovers() {
        #expect(lost { $0.sweeps = 1 } == ["1 sweeps are not done"])
        #expect(lost { $0.deadLetters = 2 } == ["2 events became dead letters"])
    }

    @Test("A stale timeline is a loss, unless its budget, the spacing or a failure delays it")
    func stale() {
        #expect(lost { $0.stale = 1 } == ["1 timelines are still stale"])
        #expect(lost { ($0.stale, $0.waiting) = (3, 3) } == [])
        #expect(lost { ($0.stale, $0.waiting) = (3, 2) } == ["1 timelines are still stale"])
    }

    @Test("All losses are reported")
    func several() {
        let all = lost {
            $0.failures = 1
            $0.applied = 8
            $0.stale = 1
            $0.deadLetters = 1
        }
        #expect(all.count == 4)
    }
}
