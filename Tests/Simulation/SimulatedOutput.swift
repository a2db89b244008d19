// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// A model of the topic `freshet.timelines`. Messages arrive in any order, once or never. Senders wait for at most the
/// delivery timeout; some messages arrive long after that.
struct SimulatedOutput {
    struct Flight {
        let id: Int
        let identity: Int
        let message: Message
        let sender: Sender
        /// Latest arrival of a message that is not overdue.
        let deadline: Timestamp
        /// Whether the sender has given the message up.
        var isOverdue = false
    }

    /// A job of a worker process.
    struct Sender: Hashable {
        let worker: Int
        let job: Int
        /// Whether the lease could end before the message arrives, which only happens to a suspended process.
        let isLate: Bool
    }

    /// Messages under way.
    private(set) var flights: [Flight] = []
    private var fates: [Bool?] = []
    /// Messages that a consumer shows if it ignores lower revisions.
    private(set) var shown: [Message?] = Array(repeating: nil, count: SimulatedWorld.identities)
    /// Last message of each key, which compaction keeps.
    private(set) var last: [(message: Message, sender: Sender, wasOverdue: Bool)?] = Array(
        repeating: nil, count: SimulatedWorld.identities)
    /// Jobs that were killed, and jobs that ended without a comparison because they were killed or returned their
    /// lists.
    private var killed: Set<Sender> = []
    private var uncompared: Set<Sender> = []

    /// - Returns: ID of the message.
    mutating func send(_ identity: Int, _ message: Message, by sender: Sender, at now: Timestamp) -> Int {
        let id = fates.count
        fates.append(nil)
        flights.append(
            Flight(
                id: id, identity: identity, message: message, sender: sender,
                deadline: now + SimulatedWorld.longestPublish))
        return id
    }

    /// Returns whether the message has arrived; nil if that is open.
    func fate(_ id: Int) -> Bool? { fates[id] }

    mutating func lose(at index: Int) {
        fates[flights.remove(at: index).id] = false
    }

    /// Delays a message in a connection or a broker after its sender has given it up.
    mutating func delay(at index: Int) {
        flights[index].isOverdue = true
        fates[flights[index].id] = false
    }

    mutating func land(at index: Int, _ witness: inout Witness) {
        let flight = flights.remove(at: index)
        fates[flight.id] = !flight.isOverdue
        witness.note(
            "message of identity \(flight.identity) lands\(flight.isOverdue ? " late" : ""): \(flight.message)")
        witness.landed(flight.identity, flight.message)
        last[flight.identity] = (flight.message, flight.sender, flight.isOverdue)
        if flight.message.revision >= shown[flight.identity]?.revision ?? 0 { shown[flight.identity] = flight.message }
    }

    mutating func noteUncompared(_ worker: Int, _ job: Int, isKilled: Bool) {
        for isLate in [false, true] {
            let sender = Sender(worker: worker, job: job, isLate: isLate)
            uncompared.insert(sender)
            if isKilled { killed.insert(sender) }
        }
    }

    /// Whether the last message may be an old one, which consumers ignore. The message was overdue, or its sender was
    /// suspended beyond its lease and killed afterwards. Alternatively, its list was returned uncompared and the
    /// timeline was collected while the message was under way: an ID without a row does not identify the timeline.
    func mayEndLate(_ identity: Int, isCollected: Bool) -> Bool {
        guard let (_, sender, wasOverdue) = last[identity] else { return false }
        return wasOverdue || (isCollected ? uncompared.contains(sender) : sender.isLate && killed.contains(sender))
    }
}
