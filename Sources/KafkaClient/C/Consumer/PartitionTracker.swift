// SPDX-License-Identifier: Apache-2.0

internal import CRdKafka

/// State of each assigned partition: whether it is fetched, and its next offset.
///
/// Pure bookkeeping, used on the poll thread only. It guards against librdkafka's assignment and pause bugs: offsets
/// never go back, and a hole right behind a moved position is read a second time before it counts.
struct PartitionTracker {
    enum Phase: Equatable {
        /// Is fetched. Becomes `stalled` when the offset is out of range.
        case running
        /// Is not fetched any more. Becomes `running` by a seek.
        case stalled
    }

    struct State: Equatable {
        let place: TopicPartition
        let topicIndex: Int32
        var phase = Phase.running
        /// Expected offset; nil until the first message after a start at the earliest or latest.
        var next: Int64?
        /// Whether the position was moved (start, resume, other assignment) and no message has come since, so that a
        /// hole here may be librdkafka's fault.
        var isUnproven = true
        /// Message before the position that the log must have, until it has been looked at.
        var known: KafkaFingerprint?
        /// Offset at which the log ended when it was last read to its end: the last stable offset, if a transaction was
        /// open.
        var end: Int64?

        /// Start at which the partition goes on as it is.
        var start: KafkaOffset? {
            guard let next else { return nil }
            return known.map { .behind($0, next: next) } ?? .at(next)
        }

        /// Whether nothing that can be read has come since the log was read to its end.
        var isAtEnd: Bool { end != nil && end == next }
    }

    enum Verdict: Equatable {
        /// The offset is the expected one.
        case deliver
        /// The log has no messages at the offsets before: transaction markers, or compaction.
        case deliverAfterGap(missing: Int64)
        /// Offsets are missing right after the position was moved: read a second time from here.
        case verify(from: Int64)
        /// Delivered before, or of a partition that is not read: dropped.
        case stale
    }

    /// Topic names in the order of their first assignment; batches share this array.
    private(set) var topics: [String] = []
    private var topicIndices: [String: Int32] = [:]
    private var states: [State] = []
    private var indices: [TopicPartition: Int] = [:]

    var all: [State] { states }
    var running: [State] { states.filter { $0.phase == .running } }

    subscript(place: TopicPartition) -> State? { indices[place].map { states[$0] } }

    func index(of place: TopicPartition) -> Int? { indices[place] }

    func state(at index: Int) -> State { states[index] }

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

    /// Moves a partition's position.
    mutating func move(_ place: TopicPartition, to offset: KafkaOffset) {
        guard let index = indices[place] else { return }
        states[index].phase = .running
        states[index].isUnproven = true
        (states[index].next, states[index].known, states[index].end) = (nil, nil, nil)
        switch offset {
        case .earliest, .latest: break
        case .at(let next): states[index].next = next
        case .behind(let message, let next): (states[index].next, states[index].known) = (next, message)
        }
    }

    mutating func stall(_ place: TopicPartition) {
        guard let index = indices[place] else { return }
        states[index].phase = .stalled
    }

    /// Notes that the message before the position was found, or is not in the log any more.
    mutating func confirmLog(_ index: Int) { states[index].known = nil }

    /// Notes that librdkafka drops prefetched messages and fetches them again.
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
            // Once only: offsets missing in the second reading too are not in the log.
            states[index].isUnproven = false
            return .verify(from: next)
        }
        proceed(index, past: offset)
        return .deliverAfterGap(missing: offset - next)
    }

    /// Accepts the end of the log. `deliverAfterGap` says that the offsets before it have no messages: they are markers
    /// of transactions or of messages that were aborted or compacted.
    mutating func acceptEnd(_ offset: Int64, at index: Int) -> Verdict {
        guard states[index].phase == .running, offset >= 0 else { return .stale }
        let next = states[index].next ?? 0
        guard offset >= next else { return .stale }
        if states[index].isUnproven, states[index].next != nil, offset > next {
            states[index].isUnproven = false
            return .verify(from: next)
        }
        (states[index].next, states[index].end, states[index].isUnproven) = (offset, offset, false)
        return offset == next ? .deliver : .deliverAfterGap(missing: offset - next)
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

/// Finds a partition's index in the tracker by librdkafka's topic pointer, without a string for each message. Valid
/// until the assignment changes, since the topics of assigned partitions stay.
struct PartitionIndexCache {
    private struct Key: Hashable {
        var topic: UInt
        var partition: Int32
    }

    private var last: (key: Key, index: Int)?
    private var indices: [Key: Int] = [:]

    mutating func index(topic: OpaquePointer?, partition: Int32, in tracker: PartitionTracker) -> Int? {
        guard let topic = unsafe topic else { return nil }
        let key = Key(topic: UInt(bitPattern: topic), partition: partition)
        if let last, last.key == key { return last.index }
        if let index = indices[key] {
            last = (key, index)
            return index
        }
        let place = TopicPartition(topic: unsafe String(cString: rd_kafka_topic_name(topic)), partition: partition)
        guard let index = tracker.index(of: place) else { return nil }
        indices[key] = index
        last = (key, index)
        return index
    }

    mutating func removeAll() {
        last = nil
        indices = [:]
    }
}
