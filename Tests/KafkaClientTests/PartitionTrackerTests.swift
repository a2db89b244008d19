// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import KafkaClient

/// Filter for offsets.
struct PartitionTrackerTests {
    private let place = TopicPartition(topic: "t", partition: 3)

    private func running(at offset: KafkaOffset) -> PartitionTracker {
        var tracker = PartitionTracker()
        tracker.assign([place])
        tracker.move(place, to: offset)
        return tracker
    }

    @Test("Consecutive offsets are delivered")
    func followsOn() {
        var tracker = running(at: .at(10))
        #expect(tracker.accept(offset: 10, at: 0) == .deliver)
        #expect(tracker.accept(offset: 11, at: 0) == .deliver)
        #expect(tracker[place]?.next == 12)
    }

    @Test("No offset is delivered twice or out of order")
    func neverBack() {
        var tracker = running(at: .at(10))
        #expect(tracker.accept(offset: 9, at: 0) == .stale)
        #expect(tracker.accept(offset: 10, at: 0) == .deliver)
        #expect(tracker.accept(offset: 10, at: 0) == .stale)
        #expect(tracker.accept(offset: 3, at: 0) == .stale)
        #expect(tracker[place]?.next == 11)
    }

    @Test("Nothing is delivered from a partition that has stalled or was released")
    func onlyRunning() {
        var tracker = PartitionTracker()
        tracker.assign([place])
        tracker.move(place, to: .at(0))
        #expect(tracker.accept(offset: 0, at: 0) == .deliver)
        tracker.stall(place)
        #expect(tracker.accept(offset: 1, at: 0) == .stale)
        #expect(tracker.running.isEmpty)
        #expect(tracker.all.count == 1)
        tracker.revoke([place])
        #expect(tracker.index(of: place) == nil)
        #expect(tracker.all.isEmpty)
    }

    @Test("The end of the log moves the position behind offsets without messages")
    func ends() {
        var tracker = running(at: .at(10))
        #expect(tracker.acceptEnd(10, at: 0) == .deliver)
        #expect(tracker[place]?.isAtEnd == true)
        #expect(tracker.accept(offset: 10, at: 0) == .deliver)
        #expect(tracker[place]?.isAtEnd == false)
        #expect(tracker.acceptEnd(12, at: 0) == .deliverAfterGap(missing: 1))
        #expect(tracker[place]?.next == 12 && tracker[place]?.isAtEnd == true)
        #expect(tracker.acceptEnd(11, at: 0) == .stale)
        #expect(tracker.accept(offset: 11, at: 0) == .stale)
    }

    @Test("Behind a moved position the end of the log counts once a hole was read again")
    func endAfterMove() {
        var tracker = running(at: .at(10))
        #expect(tracker.acceptEnd(10, at: 0) == .deliver)
        tracker.move(place, to: .at(20))
        #expect(tracker[place]?.isAtEnd == false)
        #expect(tracker.acceptEnd(25, at: 0) == .verify(from: 20))
        #expect(tracker.acceptEnd(25, at: 0) == .deliverAfterGap(missing: 5))

        tracker.move(place, to: .earliest)
        #expect(tracker.acceptEnd(30, at: 0) == .deliverAfterGap(missing: 30))
        #expect(tracker[place]?.next == 30)
    }

    @Test(
        "After a start at the earliest or latest offset the first one is accepted",
        arguments: [
            KafkaOffset.earliest, .latest,
        ])
    func unknownBegin(offset: KafkaOffset) {
        var tracker = running(at: offset)
        #expect(tracker.accept(offset: 500, at: 0) == .deliver)
        #expect(tracker.accept(offset: 501, at: 0) == .deliver)
        #expect(tracker[place]?.next == 502)
    }

    @Test("A gap behind a moved position is read again once, then accepted")
    func verifiesOnce() {
        var tracker = running(at: .at(10))
        #expect(tracker.accept(offset: 12, at: 0) == .verify(from: 10))
        #expect(tracker.accept(offset: 12, at: 0) == .deliverAfterGap(missing: 2))
        #expect(tracker.accept(offset: 13, at: 0) == .deliver)
    }

    @Test("A gap that the second read fills is not reported")
    func verificationFinds() {
        var tracker = running(at: .at(10))
        #expect(tracker.accept(offset: 12, at: 0) == .verify(from: 10))
        for offset in Int64(10)...13 { #expect(tracker.accept(offset: offset, at: 0) == .deliver) }
    }

    @Test("A gap within a run is the log's; after a pause or an assignment it is read again")
    func gapInRun() {
        var tracker = running(at: .at(0))
        #expect(tracker.accept(offset: 0, at: 0) == .deliver)
        #expect(tracker.accept(offset: 2, at: 0) == .deliverAfterGap(missing: 1))
        tracker.distrustPositions()
        #expect(tracker.accept(offset: 5, at: 0) == .verify(from: 3))
        #expect(tracker.accept(offset: 3, at: 0) == .deliver)
    }

    @Test("A partition that is assigned again has a new state; others keep theirs")
    func reassigned() {
        var tracker = running(at: .at(7))
        let other = TopicPartition(topic: "u", partition: 0)
        tracker.assign([other])
        tracker.move(other, to: .at(1))
        tracker.revoke([place])
        #expect(tracker.index(of: other) == 0)
        #expect(tracker[other]?.next == 1)
        tracker.assign([place])
        #expect(tracker[place]?.phase == .running)
        #expect(tracker[place]?.next == nil)
        #expect(tracker.topics == ["t", "u"])
        #expect(tracker[place]?.topicIndex == 0)
    }
}
