/// State of each assigned partition: whether it is fetched, and its next offset.
///
/// Pure bookkeeping, used on the poll thread only. It is the last line of defence against librdkafka's assignment and
/// pause bugs: nothing goes back, and a hole at a place where the position had been moved is read again before it is
/// believed.
struct PartitionTracker {
    enum Phase: Equatable {
        /// Being fetched. Becomes `stalled` when the offset is out of range.
        case running
        /// librdkafka has stopped fetching it. Becomes `running` by a seek.
        case stalled
    }

    struct State: Equatable {
        let place: TopicPartition
        let topicIndex: Int32
        var phase = Phase.running
        /// The offset that follows on; nil until the first message after a start at the earliest or latest.
        var next: Int64?
        /// The position was moved (start, resume, other assignment) and no message has come since: a hole here may be
        /// librdkafka's.
        var isUnproven = true
    }

    enum Verdict: Equatable {
        /// The offset follows on.
        case deliver
        /// Offsets are missing before it, and the log does not have them: transaction markers, or compaction.
        case deliverAfterGap(missing: Int64)
        /// Offsets are missing before it right after the position was moved: read again from here before believing it.
        case verify(from: Int64)
        /// Came already, or of a partition that is not being read: drop it.
        case stale
    }

    /// Topic names in the order in which they were first seen; batches share this array.
    private(set) var topics: [String] = []
    private var topicIndices: [String: Int32] = [:]
    private var states: [State] = []
    private var indices: [TopicPartition: Int] = [:]

    var all: [State] { states }
    var running: [State] { states.filter { $0.phase == .running } }

    subscript(place: TopicPartition) -> State? { indices[place].map { states[$0] } }

    func index(of place: TopicPartition) -> Int? { indices[place] }

    func state(at index: Int) -> State { states[index] }

    func topicIndex(at index: Int) -> Int32 { states[index].topicIndex }

    mutating func assign(_ places: [TopicPartition]) {
        for place in places {
            let state = State(place: place, topicIndex: intern(place.topic))
            if let index = indices[place] {
                states[index] = state
            } else {
                indices[place] = states.count
                states.append(state)
            }
        }
    }

    mutating func revoke(_ places: [TopicPartition]) {
        let gone = Set(places)
        states.removeAll { gone.contains($0.place) }
        indices = Dictionary(uniqueKeysWithValues: states.enumerated().map { ($1.place, $0) })
    }

    /// Fetching begins, or goes on, from here.
    mutating func move(_ place: TopicPartition, to offset: KafkaOffset) {
        guard let index = indices[place] else { return }
        states[index].phase = .running
        states[index].isUnproven = true
        if case .at(let next) = offset { states[index].next = next } else { states[index].next = nil }
    }

    mutating func stall(_ place: TopicPartition) {
        guard let index = indices[place] else { return }
        states[index].phase = .stalled
    }

    /// librdkafka has thrown prefetched messages away and will fetch them again: check where it goes on.
    mutating func distrustPositions() {
        for index in states.indices { states[index].isUnproven = true }
    }

    mutating func accept(offset: Int64, at index: Int) -> Verdict {
        guard states[index].phase == .running else { return .stale }
        guard let next = states[index].next else {
            proceed(index, past: offset)
            return .deliver
        }
        if offset == next {
            proceed(index, past: offset)
            return .deliver
        }
        if offset < next { return .stale }
        if states[index].isUnproven {
            // Once only: if the second reading skips them as well, they are not in the log.
            states[index].isUnproven = false
            return .verify(from: next)
        }
        proceed(index, past: offset)
        return .deliverAfterGap(missing: offset - next)
    }

    private mutating func proceed(_ index: Int, past offset: Int64) {
        states[index].next = offset + 1
        states[index].isUnproven = false
    }

    private mutating func intern(_ topic: String) -> Int32 {
        if let index = topicIndices[topic] { return index }
        let index = Int32(topics.count)
        topicIndices[topic] = index
        topics.append(topic)
        return index
    }
}
