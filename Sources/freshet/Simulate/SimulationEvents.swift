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

    /// Reads the events of a file with JSON lines; none without a file.
    static func read(_ path: String?) async throws -> [TimedEvent] {
        guard let path else { return [] }
        let reader = try LineReader(path, maximumBytes: maximumLine)
        let lines = EventLines(now: WallClock.now)
        var events: [TimedEvent] = []
        func complain(_ message: String) { Terminal.complain(message) }
        let refused = try await reader.chunks(of: 1_000, decode: lines.event, complain: complain) { chunk in
            events += chunk.map { ($0.value.time, $0.value.event) }
            return true
        }
        guard refused == 0 else { throw CommandFailure(.failure, "\(refused) lines are not events") }
        return sorted(events)
    }

    /// By time; events of one time keep their order.
    private static func sorted(_ events: [TimedEvent]) -> [TimedEvent] {
        events.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
    }

    /// Reads the events that the brokers got in a time span, and before it those about widgets and stacks.
    static func read(_ settings: Settings, _ span: Range<Timestamp>) async throws -> [TimedEvent] {
        let kafka = try settings.requiredKafka()
        let admin = KafkaAdmin(configuration: kafka, logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        let decoder = EventDecoder()
        var events: [TimedEvent] = []
        for (name, sort) in zip(settings.topics.inputs, settings.topics.inputSorts) {
            for partition in try await partitions(of: name, admin) {
                let bounds = try await admin.bounds(of: partition)
                let before = sort == .widgets ? .distantPast : span.lowerBound
                try await reader.read(partition, bounds.earliest..<bounds.end, from: before) { batch, index in
                    let time = batch.brokerTime(index)
                    guard time < span.upperBound else { return false }
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

    /// Reads the publications of a time span; empty if the topic cannot be read.
    static func publications(_ settings: Settings, _ span: Range<Timestamp>) async throws -> Publications {
        let kafka = try settings.requiredKafka()
        let admin = KafkaAdmin(configuration: kafka, logger: LogSettings.ofCommands)
        let reader = KafkaReader(configuration: kafka, logger: LogSettings.ofCommands)
        var found = Publications()
        do {
            for partition in try await partitions(of: settings.topics.timelines, admin) {
                let bounds = try await admin.bounds(of: partition)
                // Content that was published before is what people saw at first.
                try await reader.read(partition, bounds.earliest..<bounds.end, from: .distantPast) { batch, index in
                    let time = batch.brokerTime(index)
                    guard time < span.upperBound else { return false }
                    if let value = batch.value(index) { found.note(Array(batch.bytes[value]), time, span) }
                    return true
                }
            }
        } catch let error as KafkaError {
            Terminal.complain("the topic \(settings.topics.timelines) was not read: \(error)")
        }
        found.sort()
        return found
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
            // An offset without a message is one of a transaction's end: the next one decides.
            let found = try await messages(of: partition, at: middle...min(middle + 8, offsets.upperBound - 1))
            if let found, found.brokerTime(0) >= time { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

extension KafkaBatch {
    /// The message's timestamp.
    fileprivate func brokerTime(_ index: Int) -> Timestamp {
        Timestamp(microseconds: max(0, records[index].timestampMilliseconds) * 1_000)
    }
}

extension FreshetEvent {
    /// Whether it says which widgets and stacks there are.
    fileprivate var isArrangement: Bool {
        switch self {
        case .placed, .configured, .removed, .environmentChanged, .stackChanged: true
        default: false
        }
    }
}

/// Publications that really happened.
struct Publications {
    /// Times by timeline.
    private(set) var times: [TimelineID: [Timestamp]] = [:]
    /// Number in the span, by app and kind, as in ``SimulationReport/Kind/title``.
    private(set) var counts: [String: Int] = [:]
    /// Time from a publication to its policy's reload, likewise.
    private var refreshes: [String: [Duration]] = [:]

    mutating func note(_ value: [UInt8], _ time: Timestamp, _ span: Range<Timestamp>) {
        guard let document = try? JSONValue.parse(value), let name = document["kind"]?.stringValue,
            let app = document["app"]?.stringValue,
            let id = document["timeline"]?.stringValue.flatMap({ TimelineID($0) })
        else { return }
        let kind = "\(app) \(name)"
        times[id, default: []].append(time)
        if span.contains(time) { counts[kind, default: 0] += 1 }
        let stored = document["storedAt"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } ?? time
        let last = document["entries"]?.arrayValue?.last?["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
        let after = document["policy"]?["after"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
        let isAtEnd = document["policy"]?.stringValue == "atEnd"
        if let end = after ?? (isAtEnd ? last : nil) { refreshes[kind, default: []].append(end - stored) }
    }

    mutating func sort() { times = times.mapValues { $0.sorted() } }

    /// Median time from a publication to its policy's reload, likewise.
    var refresh: [String: Duration] {
        refreshes.mapValues { max(.seconds(60), $0.sorted()[$0.count / 2]) }
    }
}
