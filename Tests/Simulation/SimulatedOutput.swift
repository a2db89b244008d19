import WidgetModel

/// The topic `freshet.timelines`: messages are on their way in any order, and land once or never. Their senders wait for at most
/// the delivery timeout; some messages land long after that.
struct SimulatedOutput {
    struct Flight {
        let id: Int
        let identity: Int
        let message: Message
        let sender: Sender
        /// Until then it has landed, or never will, unless it is overdue.
        let deadline: Timestamp
        /// Its sender has given it up.
        var isOverdue = false
    }

    /// A job of a worker process.
    struct Sender: Hashable {
        let worker: Int
        let job: Int
        /// Sent when the lease could end before the message lands: only a process that was stopped does that.
        let isLate: Bool
    }

    /// Not there yet.
    private(set) var flights: [Flight] = []
    private var fates: [Bool?] = []
    /// What a consumer shows that ignores lower revisions.
    private(set) var shown: [Message?] = Array(repeating: nil, count: SimulatedWorld.identities)
    /// The last message of each key: what compaction leaves.
    private(set) var last: [(message: Message, sender: Sender, wasOverdue: Bool)?] = Array(
        repeating: nil, count: SimulatedWorld.identities)
    /// Jobs that were killed, and those that ended without a comparison: killed or given back.
    private var killed: Set<Sender> = []
    private var uncompared: Set<Sender> = []

    /// - Returns: the message's id.
    mutating func send(_ identity: Int, _ message: Message, by sender: Sender, at now: Timestamp) -> Int {
        let id = fates.count
        fates.append(nil)
        flights.append(
            Flight(
                id: id, identity: identity, message: message, sender: sender,
                deadline: now + SimulatedWorld.longestPublish))
        return id
    }

    /// Whether it has landed; nil: that is open.
    func fate(_ id: Int) -> Bool? { fates[id] }

    mutating func lose(at index: Int) {
        fates[flights.remove(at: index).id] = false
    }

    /// A connection, or a broker, holds the message, and its sender waits no longer.
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

    /// Whether the last message may be an old one, which consumers ignore: it was overdue, or its sender was stopped for longer
    /// than its lease and killed afterwards. Or its list came back uncompared, and the timeline was collected while the message was on its way: an
    /// id without a row does not tell whose it was.
    func mayEndLate(_ identity: Int, isCollected: Bool) -> Bool {
        guard let (_, sender, wasOverdue) = last[identity] else { return false }
        return wasOverdue || (isCollected ? uncompared.contains(sender) : sender.isLate && killed.contains(sender))
    }
}
