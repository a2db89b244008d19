/// Sends that wait for room, in order.
struct SendQueue {
    private var batches: [SendBatch] = []
    private var head = 0

    var isEmpty: Bool { head == batches.count }
    var first: SendBatch? { isEmpty ? nil : batches[head] }

    var messageCount: Int { batches[head...].reduce(0) { $0 + $1.waiting } }

    mutating func append(_ batch: SendBatch) { batches.append(batch) }

    mutating func removeFirst() {
        head += 1
        // Moves the rest up only when half of the array is used up: constant time on average.
        if head > 32, head * 2 > batches.count {
            batches.removeFirst(head)
            head = 0
        }
    }

    /// Removes and returns the batches that match.
    mutating func removeAll(where isRemoved: (SendBatch) -> Bool) -> [SendBatch] {
        var removed: [SendBatch] = []
        var kept: [SendBatch] = []
        for batch in batches[head...] {
            if isRemoved(batch) { removed.append(batch) } else { kept.append(batch) }
        }
        batches = kept
        head = 0
        return removed
    }
}

/// The message of a delivery report.
struct DeliverySlot {
    var batch: SendBatch
    /// The message's place in its batch.
    var index: Int
    /// Bytes that count towards the bound.
    var size: Int
}

/// Messages under way by tag. A tag goes through librdkafka as the message's opaque pointer, and is never 0.
struct DeliverySlots {
    private var slots: [DeliverySlot?] = []
    private var free: [Int] = []

    var count: Int { slots.count - free.count }
    var isEmpty: Bool { count == 0 }

    mutating func insert(_ slot: DeliverySlot) -> Int {
        if let index = free.popLast() {
            slots[index] = slot
            return index + 1
        }
        slots.append(slot)
        return slots.count
    }

    @discardableResult
    mutating func remove(_ tag: Int) -> DeliverySlot? {
        let index = tag - 1
        guard slots.indices.contains(index), let slot = slots[index] else { return nil }
        slots[index] = nil
        free.append(index)
        return slot
    }
}
