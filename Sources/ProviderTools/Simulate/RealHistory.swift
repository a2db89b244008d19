// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import FreshetService
import JSON
import KafkaClient
import ReloadIngest
import WidgetEvents
import WidgetModel
import WidgetSimulator

private let maximumLine = 4 << 20
/// Time by which messages of a partition may lie out of order, since producers set their times.
private let disorder = Duration.seconds(3_600)

/// Reads the events and messages of a file with JSON lines; the history is nil without any of its messages.
///
/// An export does not show whether messages about timelines are missing from it.
func readEvents(
    ofFile path: String, in span: Range<Timestamp>
) async throws -> (events: [TimedEvent], history: RealHistory?) {
    let reader = try LineReader(path, maximumBytes: maximumLine)
    let lines = EventLines(now: Timestamp.now)
    var events: [TimedEvent] = []
    var history = RealHistory(span)
    func complain(_ message: String) { Terminal.complain(message) }
    func take(_ bytes: [UInt8]) throws(ModelError) {
        let line = try EventLines.Line(bytes)
        guard let type = line.type,
            [TimelineUpdatedEvent.type, TimelineDecidedEvent.type, EncodedEvent.timelineRemoved].contains(type),
            let time = line.attributes["time"]?.stringValue.flatMap({ Timestamp(rfc3339: $0) }),
            let data = line.data.flatMap({ try? JSONValue.parse(bytes, in: $0) })
        else {
            let event = try lines.outgoingEvent(line)
            return events.append((event.time, event.event))
        }
        if type == TimelineDecidedEvent.type {
            history.noteDecision(data, at: time)
            history.hasDecisions = true
        } else {
            history.noteTimeline(data, at: time)
        }
    }
    let refused = try await reader.chunks(of: 1_000, decode: take, complain: complain) { _ in true }
    guard refused == 0 else { throw CommandFailure(.failure, "\(refused) lines are not events") }
    history.sort()
    let hasHistory = history.hasDecisions || !history.publications.isEmpty
    return (sorted(events.filter { $0.time < span.upperBound }), hasHistory ? history : nil)
}

/// By time; events of one time keep their order.
private func sorted(_ events: [TimedEvent]) -> [TimedEvent] {
    events.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
}

/// Fails without an event in a time span.
func requireEvents(_ events: [TimedEvent], in span: Range<Timestamp>) throws {
    guard !events.contains(where: { span.contains($0.time) }) else { return }
    throw CommandFailure(.failure, "there are no events from \(span.lowerBound) to \(span.upperBound)")
}

/// Moves earlier events about widgets and stacks to a time, and leaves out all other earlier ones.
func arrangedEvents(_ events: [TimedEvent], at begin: Timestamp) -> [TimedEvent] {
    events.filter { $0.time >= begin || $0.event.isArrangement }.map { (max($0.time, begin), $0.event) }
}

/// Reads the events that the brokers got in a time span, and those about widgets and stacks that they got before
/// it.
func readEvents(_ settings: Settings, in span: Range<Timestamp>) async throws -> [TimedEvent] {
    let kafka = try settings.requiredKafka()
    let admin = KafkaAdmin(configuration: kafka, logger: .ofCommands)
    let reader = KafkaReader(configuration: kafka, logger: .ofCommands)
    let decoder = EventDecoder()
    var events: [TimedEvent] = []
    for (name, sort) in zip(settings.topics.inputs, settings.topics.inputSorts) {
        for partition in try await partitions(of: name, admin) {
            let bounds = try await admin.bounds(of: partition)
            let before = sort == .widgets ? nil : span.lowerBound - disorder
            var time = Timestamp.distantPast
            try await reader.read(partition, bounds, from: before?.milliseconds) { batch, index in
                time = batch.time(index) ?? time
                guard time < span.upperBound else { return time < span.upperBound + disorder }
                let headers = batch.headers(index)
                let decoded = try? decoder.decode(
                    bytes: batch.bytes, value: batch.value(index), headers: headers, topic: sort)
                if let event = decoded?.event, time >= span.lowerBound || event.isArrangement {
                    events.append((time, event))
                }
                return true
            }
        }
    }
    return sorted(events)
}

extension RealHistory {
    /// Reads from Kafka what really happened in a time span.
    init(_ settings: Settings, in span: Range<Timestamp>) async throws {
        var history = RealHistory(span)
        history.hasTimelines = try await read(settings.topics.timelines, settings, before: span.upperBound) {
            history.noteTimeline($0, at: $1)
        }.isWhole(in: span)
        let decisions = try await read(settings.topics.decisions, settings, before: span.upperBound) {
            history.noteDecision($0, at: $1)
        }
        history.hasDecisions = decisions.hasMessages && decisions.isWhole(in: span)
        history.sort()
        self = history
    }
}

/// Reads the messages of a topic until a time; a topic that cannot be read is complained of.
private func read(
    _ topic: String, _ settings: Settings, before end: Timestamp, note: (JSONValue, Timestamp) -> Void
) async throws -> LogGaps {
    let kafka = try settings.requiredKafka()
    let admin = KafkaAdmin(configuration: kafka, logger: .ofCommands)
    let reader = KafkaReader(configuration: kafka, logger: .ofCommands)
    var gaps = LogGaps()
    do {
        for partition in try await partitions(of: topic, admin) {
            let bounds = try await admin.bounds(of: partition)
            gaps.begin()
            var (isEnded, time) = (true, Timestamp.distantPast)
            // Content that was published before is what people saw at first.
            try await reader.read(partition, bounds) { batch, index in
                time = batch.time(index) ?? time
                gaps.note(batch.records[index].offset, time)
                isEnded = time < end
                guard isEnded else { return false }
                if let value = batch.value(index), let data = try? JSONValue.parse(Array(batch.bytes[value])) {
                    note(data, time)
                }
                return true
            }
            if isEnded { gaps.end(bounds.upperBound) }
        }
    } catch let error as KafkaError {
        if error.code != .unknownTopicOrPartition {
            Terminal.complain("the topic \(topic) was not read: \(error)")
        }
        gaps.isUnread = true
    }
    return gaps
}

private func partitions(of topic: String, _ admin: KafkaAdmin) async throws -> [TopicPartition] {
    try await admin.partitions(of: [topic])[topic]?.get() ?? []
}

extension Timestamp {
    /// The first millisecond that does not begin before this time.
    fileprivate var milliseconds: Int64 { (microseconds + 999) / 1_000 }
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

/// Record of what really happened in a time span, from the messages about timelines and decisions.
struct RealHistory {
    let span: Range<Timestamp>
    /// Number of publications in the time span, by ``KindTally/title``.
    private(set) var published: [String: Int] = [:]
    /// Numbers of decisions in the time span, likewise.
    private(set) var decided: [String: [Decision: Int]] = [:]
    /// Times of publications by timeline, from before the span on.
    private(set) var publications: [TimelineID: [Timestamp]] = [:]
    /// Times of fetches by timeline, likewise.
    private(set) var fetches: [TimelineID: [Timestamp]] = [:]
    /// True if no decision of the span is missing.
    var hasDecisions = false
    /// True if no publication of the span is missing from the messages about timelines.
    var hasTimelines = false
    /// Time from a publication to its policy's reload.
    private var refreshes: [String: [Duration]] = [:]

    init(_ span: Range<Timestamp>) {
        self.span = span
    }

    /// Notes the data of a `freshet.timeline.updated.v1`.
    mutating func noteTimeline(_ data: JSONValue, at time: Timestamp) {
        guard let title = Self.title(data), let id = Self.timeline(data) else { return }
        publications[id, default: []].append(time)
        if span.contains(time) { published[title, default: 0] += 1 }
        let stored = data["storedAt"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } ?? time
        let last = data["entries"]?.arrayValue?.last?["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
        let after = data["policy"]?["after"]?.stringValue.flatMap { Timestamp(rfc3339: $0) }
        let isAtEnd = data["policy"]?.stringValue == "atEnd"
        if let end = after ?? (isAtEnd ? last : nil) { refreshes[title, default: []].append(end - stored) }
    }

    /// Notes the data of a `freshet.timeline.decided.v1`.
    mutating func noteDecision(_ data: JSONValue, at time: Timestamp) {
        // A request that was refused has no timeline.
        guard let title = Self.title(data), let id = Self.timeline(data),
            let decision = data["decision"]?.stringValue.flatMap({ Decision(name: $0) })
        else { return }
        let isFetched = decision == .reloaded || decision == .unchanged
        if isFetched { fetches[id, default: []].append(time) }
        if decision == .reloaded { publications[id, default: []].append(time) }
        if span.contains(time) { decided[title, default: [:]][decision, default: 0] += 1 }
    }

    private static func title(_ data: JSONValue) -> String? {
        guard let app = data["app"]?.stringValue, let kind = data["kind"]?.stringValue else { return nil }
        return "\(app) \(kind)"
    }

    private static func timeline(_ data: JSONValue) -> TimelineID? {
        data["timeline"]?.stringValue.flatMap { TimelineID($0) }
    }

    /// Puts all times in order.
    mutating func sort() {
        publications = publications.mapValues { $0.sorted() }
        fetches = fetches.mapValues { $0.sorted() }
    }

    /// Median time from a publication to its policy's reload.
    var refresh: [String: Duration] {
        refreshes.mapValues { max(.seconds(60), $0.sorted()[$0.count / 2]) }
    }

    // MARK: Figures of a kind in reality; nil for those that are not known

    func count(_ decisions: Decision..., of kind: KindTally) -> Int? {
        guard hasDecisions else { return nil }
        return decisions.reduce(0) { $0 + (decided[kind.title]?[$1] ?? 0) }
    }

    func publications(of kind: KindTally) -> Int? {
        // The topic of timelines has a message for each publication, decisions may be lost.
        hasTimelines ? published[kind.title] ?? 0 : count(.reloaded, of: kind)
    }

    func ages(of kind: KindTally) -> AgeHistogram? { hasDecisions ? kind.realAges : nil }

    func publicationAges(of kind: KindTally) -> AgeHistogram? {
        hasTimelines || hasDecisions ? kind.realPublicationAges : nil
    }

    /// The figures as JSON; unknown ones are null.
    func json(_ kind: KindTally) -> JSONValue {
        func seconds(_ percentiles: AgeHistogram?) -> JSONValue {
            guard let percentiles else { return .null }
            return ["p50": .count(percentiles.p50), "p95": .count(percentiles.p95), "p99": .count(percentiles.p99)]
        }
        return [
            "app": .string(kind.app), "name": .string(kind.name),
            "fetches": .count(count(.reloaded, .unchanged, of: kind)), "publications": .count(publications(of: kind)),
            "deferred": .count(count(.deferred, of: kind)), "failed": .count(count(.failed, of: kind)),
            "ages": seconds(ages(of: kind)), "publicationAges": seconds(publicationAges(of: kind)),
        ]
    }

    /// Reasons for figures that are not known.
    var gaps: [String] {
        var gaps: [String] = []
        if !hasDecisions {
            gaps.append("there is no whole record of decisions for the time span (workers.publishDecisions)")
        }
        if !hasTimelines {
            gaps.append("the topic of timelines, which is compacted, may lack publications of the time span")
        }
        return gaps
    }
}
