/// The topic `freshet.timelines`: messages are on their way for any time, in any order, and land at least once or never.
struct SimulatedOutput {
    struct Message: Hashable {
        let id: Int
        let timeline: Int
        let revision: Int64
        /// nil: a tombstone.
        let value: UInt8?
    }

    /// What is known of a timeline by its messages.
    struct View: Hashable {
        let revision: Int64
        let value: UInt8?
    }

    /// Not there yet.
    private(set) var network: [Message] = []
    private var hasLanded: [Bool] = []
    /// What a consumer shows that ignores lower revisions.
    private(set) var shown: [View?] = Array(repeating: nil, count: SimulatedWorld.timelines)
    /// The last message of each key: what compaction leaves.
    private(set) var last: [View?] = Array(repeating: nil, count: SimulatedWorld.timelines)

    /// - Returns: the message's id.
    mutating func send(_ timeline: Int, revision: Int64, value: UInt8?) -> Int {
        let id = hasLanded.count
        hasLanded.append(false)
        network.append(Message(id: id, timeline: timeline, revision: revision, value: value))
        return id
    }

    func isAcknowledged(_ id: Int) -> Bool { hasLanded[id] }

    func position(of id: Int) -> Int? { network.firstIndex { $0.id == id } }

    mutating func lose(at index: Int) {
        network.remove(at: index)
    }

    mutating func land(at index: Int, mutation: Mutation?, _ witness: inout Witness) {
        let message = network.remove(at: index)
        hasLanded[message.id] = true
        let known = shown[message.timeline]
        witness.landed(
            message.timeline, revision: message.revision, value: message.value, after: known?.revision ?? 0)
        let view = View(revision: message.revision, value: message.value)
        last[message.timeline] = view
        if message.revision >= known?.revision ?? 0 || mutation == .consumersIgnoreRevision {
            shown[message.timeline] = view
        }
    }
}
