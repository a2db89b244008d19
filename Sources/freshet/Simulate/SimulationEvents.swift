import FreshetClient
import FreshetService
import KafkaClient
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetSimulator

/// Events of files and topics, in the order of their times.
enum SimulationEvents {
    private static let maximumLine = 4 << 20
    /// Number of offsets that are read at once.
    fileprivate static let chunk: Int64 = 20_000
    /// Time by which messages of a partition may lie out of order, since producers set their times.
    private static let disorder = Duration.seconds(3_600)

    /// Reads the events and messages of a file with JSON lines; the history is nil without any of its messages.
    ///
    /// An export does not show whether messages about timelines are missing from it.
    static func read(
        _ path: String, _ span: Range<Timestamp>
    ) async throws -> (events: [TimedEvent], history: RealHistory?) {
        enum Line {
            case event(TimedEvent)
            case message(type: String, data: JSONValue, time: Timestamp)
        }
        let reader = try LineReader(path, maximumBytes: maximumLine)
        let lines = EventLines(now: WallClock.now)
        func decode(_ line: [UInt8]) throws(LineRefused) -> Line {
            if let document = try? JSONValue.parse(line), let data = document["data"],
                let type = document["type"]?.stringValue, EventType(rawValue: type) == nil,
                [TimelineUpdatedEvent.type, TimelineDecidedEvent.type, TimelineRemovedEvent.type].contains(type),
                let time = document["time"]?.stringValue.flatMap({ Timestamp(rfc3339: $0) })
            {
                return .message(type: type, data: data, time: time)
            }
            let event = try lines.event(line)
            return .event((event.time, event.event))
        }
        var events: [TimedEvent] = []
        var history = RealHistory(span)
        func complain(_ message: String) { Terminal.complain(message) }
        let refused = try await reader.chunks(of: 1_000, decode: decode, complain: complain) { chunk in
            for (_, line) in chunk {
                switch line {
                case .event(let event): events.append(event)
                case .message(TimelineDecidedEvent.type, let data, let time):
                    history.noteDecision(data, at: time)
                    history.hasDecisions = true
                case .message(_, let data, let time): history.noteTimeline(data, at: time)
                }
            }
            return true
        }
        guard refused == 0 else { throw CommandFailure(.failure, "\(refused) lines are not events") }
        history.sort()
        let hasHistory = history.hasDecisions || !history.publications.isEmpty
        return (sorted(events.filter { $0.time < span.upperBound }), hasHistory ? history : nil)
    }

    /// By time; events of one time keep their order.
    private static func sorted(_ events: [TimedEvent]) -> [TimedEvent] {
        events.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
    }

    /// Fails without an event in a time span.
    static func check(_ events: [TimedEvent], in span: Range<Timestamp>) throws {
        guard !events.contains(where: { span.contains($0.time) }) else { return }
        throw CommandFailure(.failure, "there are no events from \(span.lowerBound) to \(span.upperBound)")
    }

    /// Moves earlier events about widgets and stacks to a time, and leaves out all other earlier ones.
    static func state(of events: [TimedEvent], at begin: Timestamp) -> [TimedEvent] {
        events.filter { $0.time >= begin || $0.event.isArrangement }.map { (max($0.time, begin), $0.event) }
    }

    /// Reads the events that the brokers got in a time span, and those about widgets and stacks that they got before
    /// it.
    static func read(_ settings: Settings, _ span: Range<Timestamp>) async throws -> [TimedEvent] {
        let kafka = try settings.requiredKafka()
        let admin = KafkaAdmin(configuration: kafka, logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        let decoder = EventDecoder()
        var events: [TimedEvent] = []
        for (name, sort) in zip(settings.topics.inputs, settings.topics.inputSorts) {
            for partition in try await partitions(of: name, admin) {
                let bounds = try await admin.bounds(of: partition)
                let before = sort == .widgets ? .distantPast : span.lowerBound - disorder
                var time = Timestamp.distantPast
                try await reader.read(partition, bounds.earliest..<bounds.end, from: before) { batch, index in
                    time = batch.time(index) ?? time
                    guard time < span.upperBound else { return time < span.upperBound + disorder }
                    let headers = batch.headers(index).lazy.map { (name: $0.name, value: $0.value) }
                    let decoded = decoder.decode(
                        bytes: batch.bytes, value: batch.value(index), headers: headers, topic: sort)
                    if case .success(let found) = decoded, time >= span.lowerBound || found.event.isArrangement {
                        events.append((time, found.event))
                    }
                    return true
                }
            }
        }
        return sorted(events)
    }

    /// Reads from Kafka what really happened in a time span.
    static func history(_ settings: Settings, _ span: Range<Timestamp>) async throws -> RealHistory {
        var history = RealHistory(span)
        history.hasTimelines = try await read(settings.topics.timelines, settings, before: span.upperBound) {
            history.noteTimeline($0, at: $1)
        }.isWhole(in: span)
        let decisions = try await read(settings.topics.decisions, settings, before: span.upperBound) {
            history.noteDecision($0, at: $1)
        }
        history.hasDecisions = decisions.hasMessages && decisions.isWhole(in: span)
        history.sort()
        return history
    }

    /// Reads the messages of a topic until a time; a topic that cannot be read is complained of.
    private static func read(
        _ topic: String, _ settings: Settings, before end: Timestamp, note: (JSONValue, Timestamp) -> Void
    ) async throws -> LogGaps {
        let kafka = try settings.requiredKafka()
        let admin = KafkaAdmin(configuration: kafka, logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        var gaps = LogGaps()
        do {
            for partition in try await partitions(of: topic, admin) {
                let bounds = try await admin.bounds(of: partition)
                gaps.begin()
                var (isEnded, time) = (true, Timestamp.distantPast)
                // Content that was published before is what people saw at first.
                try await reader.read(partition, bounds.earliest..<bounds.end, from: .distantPast) { batch, index in
                    time = batch.time(index) ?? time
                    gaps.note(batch.records[index].offset, time)
                    isEnded = time < end
                    guard isEnded else { return false }
                    if let value = batch.value(index), let data = try? JSONValue.parse(Array(batch.bytes[value])) {
                        note(data, time)
                    }
                    return true
                }
                if isEnded { gaps.end(bounds.end) }
            }
        } catch let error as KafkaError {
            if error.code != .unknownTopicOrPartition {
                Terminal.complain("the topic \(topic) was not read: \(error)")
            }
            gaps.isUnread = true
        }
        return gaps
    }

    private static func partitions(of topic: String, _ admin: KafkaAdmin) async throws -> [TopicPartition] {
        try await admin.partitions(of: [topic])[topic]?.get() ?? []
    }
}

extension KafkaReader {
    /// Reads messages of a partition from a time on, until `body` returns false.
    fileprivate func read(
        _ partition: TopicPartition, _ offsets: Range<Int64>, from: Timestamp, _ body: (KafkaBatch, Int) -> Bool
    ) async throws {
        var next = from == .distantPast ? offsets.lowerBound : try await first(partition, offsets, from)
        while next < offsets.upperBound {
            let last = min(next + SimulationEvents.chunk - 1, offsets.upperBound - 1)
            if let batch = try await messages(of: partition, at: next...last) {
                for index in batch.records.indices where !body(batch, index) { return }
            }
            next = last + 1
        }
    }

    /// The first offset whose message came at a time or later.
    private func first(
        _ partition: TopicPartition, _ offsets: Range<Int64>, _ time: Timestamp
    ) async throws -> Int64 {
        var (low, high) = (offsets.lowerBound, offsets.upperBound)
        while low < high {
            let middle = low + (high - low) / 2
            // Offsets without a message are markers of transactions, or compacted: the next message decides, also for one
            // without a usable timestamp.
            let next = try await firstTime(partition, middle..<offsets.upperBound)
            if let next, next < time { low = middle + 1 } else { high = middle }
        }
        return low
    }

    /// The first usable time of the messages at these offsets.
    private func firstTime(_ partition: TopicPartition, _ offsets: Range<Int64>) async throws -> Timestamp? {
        var (next, width) = (offsets.lowerBound, Int64(8))
        while next < offsets.upperBound {
            let last = min(next + width - 1, offsets.upperBound - 1)
            let found = try await messages(of: partition, at: next...last)
            if let time = found.flatMap({ batch in batch.records.indices.lazy.compactMap { batch.time($0) }.first }) {
                return time
            }
            (next, width) = (last + 1, min(width * 8, SimulationEvents.chunk))
        }
        return nil
    }
}

extension KafkaBatch {
    /// The message's timestamp; nil for none or an unusable one. Such a message counts with the one before it.
    fileprivate func time(_ index: Int) -> Timestamp? {
        Timestamp(milliseconds: records[index].timestampMilliseconds)
    }
}

extension FreshetEvent {
    /// Whether it says which widgets and stacks there are.
    fileprivate var isArrangement: Bool {
        switch change {
        case .widget, .device(.environment), .person(.stack): true
        case .reload, .view, .device, .person, .interaction: false
        }
    }
}

/// Missing offsets of a topic's partitions: messages that compaction or retention has removed.
struct LogGaps {
    private var next: Int64 = 0
    private var previous = Timestamp.distantPast
    /// Times before and after each gap.
    private var gaps: [ClosedRange<Timestamp>] = []
    private(set) var hasMessages = false
    var isUnread = false

    /// Begins a partition.
    mutating func begin() { (next, previous) = (0, .distantPast) }

    mutating func note(_ offset: Int64, _ time: Timestamp) {
        if offset > next { gaps.append(min(previous, time)...max(previous, time)) }
        (next, previous, hasMessages) = (offset + 1, time, true)
    }

    /// Ends a partition that was read to its end.
    mutating func end(_ offset: Int64) {
        if offset > next { gaps.append(previous...Timestamp.distantFuture) }
    }

    /// Returns true if the log has every message of a time span.
    func isWhole(in span: Range<Timestamp>) -> Bool {
        !isUnread && !gaps.contains { $0.upperBound >= span.lowerBound && $0.lowerBound < span.upperBound }
    }
}
