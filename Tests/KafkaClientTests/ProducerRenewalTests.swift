// SPDX-License-Identifier: Apache-2.0

import Testing
import Waiting

@testable import KafkaClient

@Suite("Replacement of a producer's client")
struct ProducerRenewalTests {
    private let start = ContinuousClock.now

    @Test("The back-off grows to a limit while clients fail")
    func backoff() {
        var renewal = ProducerRenewal(madeAt: start)
        var now = start
        var pauses: [Duration] = []
        for _ in 0..<12 {
            let isDueAtOnce = renewal.checkDue(now: now)
            #expect(!isDueAtOnce, "the failure has just been noticed")
            var pause = Duration.zero
            while !renewal.checkDue(now: now + pause) { pause += .milliseconds(100) }
            pauses.append(pause)
            now += pause
            renewal.recordRenewal(now: now)
        }
        #expect(pauses.prefix(3) == [.milliseconds(100), .milliseconds(200), .milliseconds(400)])
        #expect(pauses.allSatisfy { $0 <= ProducerRenewal.backoff.cap })
        #expect(pauses.last == ProducerRenewal.backoff.cap)
    }

    @Test("A client that worked for a while resets the back-off")
    func recovers() {
        var renewal = ProducerRenewal(madeAt: start)
        var now = start
        for _ in 0..<5 {
            _ = renewal.checkDue(now: now)
            now += .seconds(10)
            renewal.recordRenewal(now: now)
        }
        now += ProducerRenewal.backoff.cap
        let answers = [renewal.checkDue(now: now), renewal.checkDue(now: now + ProducerRenewal.backoff.base)]
        #expect(answers == [false, true])
    }

    @Test("A client that cannot be created counts as a failure")
    func failure() {
        var renewal = ProducerRenewal(madeAt: start)
        let now = start + .milliseconds(100)
        var answers = [renewal.checkDue(now: start), renewal.checkDue(now: now)]
        renewal.recordFailure(now: now)
        answers += [100, 200].map { renewal.checkDue(now: now + .milliseconds($0)) }
        #expect(answers == [false, true, false, true])
    }
}
