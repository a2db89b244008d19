// SPDX-License-Identifier: Apache-2.0

import Testing
import Waiting
import WidgetModel

@testable import ReloadWorkers

struct OutputHealthTests {
    private let backoff = Backoff(base: .seconds(1), cap: .seconds(8))

    @Test func everythingIsClaimedWhileItWorks() {
        var health = OutputHealth(backoff: backoff)
        health.recordSuccess()
        #expect(health.allowance(now: .seconds(1)) == .everything)
    }

    @Test func aFailureStopsClaimsUntilAProbe() {
        var health = OutputHealth(backoff: backoff)
        health.recordFailure(now: .seconds(10))
        #expect(health.allowance(now: .seconds(10)) == .nothing(for: .seconds(1)))
        #expect(health.allowance(now: .milliseconds(10_600)) == .nothing(for: .milliseconds(400)))
        #expect(health.allowance(now: .seconds(11)) == .probe(timelines: 10))
    }

    @Test func oneProbeAtATime() {
        var health = OutputHealth(backoff: backoff)
        health.recordFailure(now: .zero)
        health.beginProbe()
        guard case .nothing = health.allowance(now: .seconds(5)) else {
            Issue.record("a second probe")
            return
        }
        health.recordSuccess()
        #expect(health.allowance(now: .seconds(5)) == .everything)
    }

    @Test func theDelayDoublesUpToTheCapAndStartsAnew() {
        var health = OutputHealth(backoff: backoff)
        var now = Duration.zero
        for expected in [1, 2, 4, 8, 8] {
            health.recordFailure(now: now)
            #expect(health.allowance(now: now) == .nothing(for: .seconds(expected)))
            now += .seconds(expected)
            health.beginProbe()
        }
        health.recordSuccess()
        health.recordFailure(now: now)
        #expect(health.allowance(now: now) == .nothing(for: .seconds(1)))
    }

    @Test func batchesThatFailTogetherCountOnce() {
        var health = OutputHealth(backoff: backoff)
        for _ in 0..<10 { health.recordFailure(now: .zero) }
        #expect(health.allowance(now: .zero) == .nothing(for: .seconds(1)))
    }

    @Test func aProbeWithNothingToPublishIsFollowedByAnother() {
        var health = OutputHealth(backoff: backoff)
        health.recordFailure(now: .zero)
        health.beginProbe()
        health.endProbe(now: .seconds(2))
        #expect(health.allowance(now: .seconds(2)) == .probe(timelines: 10))
        health.recordFailure(now: .seconds(2))
        #expect(health.allowance(now: .seconds(2)) == .nothing(for: .seconds(2)), "the output still counts as down")
    }

    @Test func endedBatchesDoNotMendAnOutputThatIsDown() {
        var health = OutputHealth(backoff: backoff)
        health.recordFailure(now: .zero)
        health.endProbe(now: .zero)
        #expect(health.allowance(now: .zero) == .nothing(for: .seconds(1)))
    }
}
