// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetModel
import WidgetStore

/// The marks of a batch, one for each target. A target is found by the bytes of its id, without a text for it.
struct MarkTable: Sendable {
    /// Target of a request.
    struct Target {
        let audience: TimelineMark.Audience
        let appID: Int32
        /// Nil for all kinds of the app.
        let kindID: Int32?
        /// Canonical form of the configuration to match; nil for any.
        let matching: String?
    }

    /// The marks in the order of each target's first request.
    private(set) var marks: [TimelineMark] = []
    private var hashes: [Int] = []
    /// Index of each mark at the slot of its hash or, if that is taken, at the next free one; -1 in free slots. Their
    /// number is a power of two, and at most half of them are taken.
    private var slots: [Int32] = []

    /// Makes room for this many targets.
    mutating func reserve(_ count: Int) {
        marks.reserveCapacity(count)
        hashes.reserveCapacity(count)
        resize(for: count)
    }

    /// Adds a request to the mark of its target.
    ///
    /// - Parameter id: place of the audience's id in the bytes, which is UTF-8.
    mutating func add(
        _ target: Target, id: Range<Int>, in bytes: [UInt8], _ reason: ReloadReason, at position: EventPosition
    ) {
        if 2 * marks.count >= slots.count { resize(for: marks.count + 1) }
        let hash = Self.hash(target, id, bytes)
        let last = slots.count - 1
        var slot = hash & last
        while slots[slot] >= 0 {
            let index = Int(slots[slot])
            if hashes[index] == hash, target.isTarget(of: marks[index], id: bytes.span.extracting(id)) {
                return marks[index].add(reason, at: position)
            }
            slot = (slot + 1) & last
        }
        slots[slot] = Int32(marks.count)
        hashes.append(hash)
        marks.append(
            TimelineMark(
                audience: target.audience, appID: target.appID, audienceID: Text.repaired(bytes.span.extracting(id)),
                kindID: target.kindID, matching: target.matching, events: 1, urgency: reason.urgency,
                lane: reason.lane, cause: position, reason: reason))
    }

    private mutating func resize(for count: Int) {
        var size = 8
        while size < 2 * count { size *= 2 }
        guard size > slots.count else { return }
        slots = Array(repeating: -1, count: size)
        for (index, hash) in hashes.enumerated() {
            var slot = hash & (size - 1)
            while slots[slot] >= 0 { slot = (slot + 1) & (size - 1) }
            slots[slot] = Int32(index)
        }
    }

    private static func hash(_ target: Target, _ id: Range<Int>, _ bytes: [UInt8]) -> Int {
        var hasher = Hasher()
        hasher.combine(target.appID)
        hasher.combine(target.kindID ?? -1)
        hasher.combine(id.count << 2 | Int(target.audience.rawValue))
        var start = id.lowerBound
        while start < id.upperBound {
            let end = min(start + ShortText.maximumBytes, id.upperBound)
            let part = ShortText(bytes, start..<end)
            hasher.combine(part.words.0)
            if end - start > 8 { hasher.combine(part.words.1) }
            if end - start > 16 { hasher.combine(part.words.2) }
            start = end
        }
        if let matching = target.matching { Text.hash(matching, into: &hasher) }
        return hasher.finalize()
    }
}

extension MarkTable.Target {
    fileprivate func isTarget(of mark: TimelineMark, id: Span<UInt8>) -> Bool {
        mark.appID == appID && mark.kindID == kindID && mark.audience == audience
            && Text.equal(id, mark.audienceID) && Text.equal(mark.matching, matching)
    }
}

extension TimelineMark {
    fileprivate mutating func add(_ reason: ReloadReason, at position: EventPosition) {
        events += 1
        urgency = max(urgency, reason.urgency)
        lane = min(lane, reason.lane)
        cause = position
        self.reason = reason
    }
}
