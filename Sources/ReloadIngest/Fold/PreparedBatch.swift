// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
package import WidgetEvents
import WidgetModel
import WidgetStore

/// A decoded batch: every message is an event or becomes a dead letter.
struct PreparedBatch: Sendable {
    let batch: KafkaBatch
    private var contents: [RecordContent]
    /// Names that the requests refer to.
    private let names: RecurringNames
    /// The batch's topics; nil for one that ingest does not read.
    private let topics: [IngestTopics.Input?]
    private let decoder: RecordDecoder

    init(_ batch: KafkaBatch, decoder: RecordDecoder) {
        self.batch = batch
        self.decoder = decoder
        topics = batch.topics.map(decoder.topic)
        var buffers = DecodingBuffers(batch.bytes)
        contents = []
        contents.reserveCapacity(batch.count)
        for (index, record) in batch.records.enumerated() {
            contents.append(decoder.content(index, of: batch, topics[Int(record.topicIndex)], &buffers))
        }
        names = buffers.names
    }

    /// Indices of all messages.
    var items: [Int] { Array(batch.records.indices) }

    /// The items that have not been applied yet, in order.
    ///
    /// - Parameter next: first offset to apply; nil for none.
    func due(_ items: [Int], from next: (TopicPartition) -> Int64?) -> [Int] {
        // Messages of a partition mostly come behind one another, so it is looked up once for all of them.
        var first: Int64?
        var latest: Int?
        return items.filter { item in
            if latest.map({ !areOfOnePartition($0, item) }) ?? true { first = next(batch.topicPartition(item)) }
            latest = item
            return first.map { batch.records[item].offset >= $0 } ?? false
        }
    }

    private func areOfOnePartition(_ item: Int, _ other: Int) -> Bool {
        let (record, other) = (batch.records[item], batch.records[other])
        return record.partition == other.partition && record.topicIndex == other.topicIndex
    }

    /// The last message of these items by partition.
    func last(of items: ArraySlice<Int>) -> [TopicPartition: KafkaFingerprint] {
        var last = [TopicPartition: Int](minimumCapacity: min(items.count, 16))
        for (item, next) in zip(items, items.dropFirst()) where !areOfOnePartition(item, next) {
            last[batch.topicPartition(item)] = item
        }
        if let item = items.last { last[batch.topicPartition(item)] = item }
        return last.mapValues(batch.fingerprint)
    }

    /// Folds the first of these items, as many as fit in `limit` rows of SQL input.
    ///
    /// - Parameters:
    ///   - diverted: apps whose events are diverted.
    ///   - full: diverted apps whose further events on shared topics are dropped.
    ///   - fullTopics: topics whose further events of no registered app are dropped.
    /// - Returns: the fold and the number of its items, at least one if there is any.
    func fold(
        _ items: [Int], _ directory: KindDirectory, _ diverted: Set<Int32> = [], full: Set<Int32> = [],
        fullTopics: Set<String> = [], limit: Int = .max
    ) -> (fold: BatchFold, count: Int) {
        var fold = BatchFold(directory: directory, divertedApps: diverted, fullApps: full)
        fold.reserve(min(items.count, limit))
        for (count, item) in items.enumerated() {
            if count > 0, fold.markCount >= limit { return (fold, count) }
            let isShared = full.isEmpty || decoder.isShared(batch.topic(item))
            let isFull = !fullTopics.isEmpty && fullTopics.contains(batch.topic(item))
            switch contents[item] {
            case .reload(let reload):
                let position = position(item)
                if fold.add(reload, names, in: batch.bytes, at: position) { continue }
                let request = names.request(reload, in: batch.bytes)
                let event = BatchEvent(record: item, position: position, time: nil, event: FreshetEvent(request))
                fold.add(event, isTopicShared: isShared, isTopicFull: isFull)
            case .event(let event): fold.add(event, isTopicShared: isShared, isTopicFull: isFull)
            case .rejected(let event): fold.reject(event, isTopicShared: isShared, isTopicFull: isFull)
            case .repeated: break
            }
        }
        return (fold, items.count)
    }

    private func position(_ index: Int) -> EventPosition {
        let record = batch.records[index]
        return EventPosition(
            topic: topics[Int(record.topicIndex)]?.index ?? -1, partition: record.partition, offset: record.offset)
    }

    /// Content of a message.
    func content(_ index: Int) -> RecordContent { contents[index] }

    /// Type of a message's event; nil if it cannot be applied.
    func type(_ index: Int) -> EventType? {
        switch contents[index] {
        case .reload(let reload): EventType(reloading: reload.reason)
        case .event(let event): event.event.type
        case .rejected, .repeated: nil
        }
    }

    /// Place of a message as text, such as `freshet.pushes/3@1042`.
    func place(_ index: Int) -> String {
        let record = batch.records[index]
        return "\(batch.topic(index))/\(record.partition)@\(record.offset)"
    }

    /// Event of a message, including a message that was turned into a rejected one; nil if it cannot be decoded.
    func event(_ index: Int) -> BatchEvent? {
        var buffers = DecodingBuffers(batch.bytes)
        let content = decoder.content(
            index, of: batch, decoder.topic(batch.topic(index)), keepsAttributes: true, &buffers)
        guard case .event(let event) = content else { return nil }
        return event
    }

    /// Turns a message into a rejected one.
    mutating func reject(_ index: Int, code: String, message: String) {
        let rejected =
            switch contents[index] {
            case .reload(let reload):
                RejectedEvent(record: index, app: names.app(reload.app), code: code, message: message)
            case .event(let event):
                RejectedEvent(
                    record: index, app: event.event.app, code: code, message: message,
                    keepsOutcome: event.handling.keepsOutcome)
            case .rejected(let event): RejectedEvent(record: index, app: event.app, code: code, message: message)
            case .repeated: RejectedEvent(record: index, app: nil, code: code, message: message)
            }
        contents[index] = .rejected(rejected)
    }

    /// The events among these items whose publishers reuse the id when they repeat a request, such as the HTTP API's.
    func repeatable(_ items: [Int]) -> [RepeatableEvent] {
        items.compactMap { item in
            guard case .event(let event) = contents[item], event.handling.keepsOutcome else { return nil }
            return (
                Int32(item), event.event.app, event.id, event.source, event.handling.user, batch.topic(event.record),
                event.position.partition, event.position.offset
            )
        }
    }

    /// Leaves out the repeated messages, and those that repeat another one of these events.
    mutating func leaveOut(_ repeated: [Int32], of events: [RepeatableEvent]) {
        for record in repeated { contents[Int(record)] = .repeated }
        var seen: Set<[[UInt8]]> = []
        for event in events {
            let identity = BatchEvent.identity(app: event.app, id: event.id, source: event.source, user: event.user)
            if !seen.insert(identity).inserted { contents[Int(event.record)] = .repeated }
        }
    }

    /// The dead letter of a message, without the token of a device.
    func deadLetter(_ event: RejectedEvent) -> DeadLetter {
        let record = batch.records[event.record]
        var attributes = EventAttributes()
        KafkaBatch.forEachHeader(of: record, in: batch.bytes) { attributes.note(name: $0, value: $1, in: batch.bytes) }
        return DeadLetter(
            topic: batch.topic(event.record), partition: record.partition, offset: record.offset,
            app: event.app, code: event.code, error: event.message, pointer: event.pointer,
            messageTime: record.timestampMilliseconds < 0 ? nil : record.timestampMilliseconds,
            key: batch.key(event.record).map { Array(batch.bytes[$0]) },
            headers: batch.headerValues(event.record).map { (name: $0.name, value: $0.value) },
            payload: batch.value(event.record).flatMap {
                attributes.redactedValue(of: batch.bytes, $0)
            })
    }
}

/// A decoded message.
enum RecordContent: Sendable {
    /// A request without options, nearly every event of a busy topic.
    case reload(CompactReload)
    case event(BatchEvent)
    // Larger than a request, and rare.
    indirect case rejected(RejectedEvent)
    /// An event that has been applied already.
    case repeated
}

/// Decodes the messages of a batch.
struct RecordDecoder: Sendable {
    private let topics: [String: IngestTopics.Input]
    private var decoder: EventDecoder

    /// The decoder for which the attribute `time` of events counts as absent.
    var ignoringTimes: RecordDecoder {
        var copy = self
        copy.decoder.ignoresTimes = true
        return copy
    }

    init(_ topics: IngestTopics, maximumEventBytes: Int = EventDecoder.defaultMaximumEventBytes) {
        self.topics = topics.inputs
        decoder = EventDecoder(maximumEventBytes: maximumEventBytes)
    }

    /// Whether the topic is allowed to carry events of several apps.
    func isShared(_ topic: String) -> Bool { topics[topic]?.apps?.count != 1 }

    /// The topic of this name; nil for one that ingest does not read.
    func topic(_ name: String) -> IngestTopics.Input? { topics[name] }

    /// Decodes a message of a batch.
    ///
    /// - Parameters:
    ///   - topic: its topic; nil if ingest does not read it.
    ///   - keepsAttributes: whether to return the attributes also of an event whose outcome is not kept, and never a
    ///     ``RecordContent/reload(_:)``.
    func content(
        _ index: Int, of batch: KafkaBatch, _ topic: IngestTopics.Input?, keepsAttributes: Bool = false,
        _ buffers: inout DecodingBuffers
    ) -> RecordContent {
        guard let topic else {
            return .rejected(
                RejectedEvent(
                    record: index, app: nil, code: "wrongTopic", message: "no topic that ingest reads"))
        }
        let (record, bytes) = (batch.records[index], batch.bytes)
        var attributes = EventAttributes()
        KafkaBatch.forEachHeader(of: record, in: bytes) { name, value in
            attributes.note(name: name, value: value, in: bytes)
        }
        var app: String?
        do throws(EventError) {
            let message = try decoder.decode(
                value: record.valueRange, attributes: attributes, topic: topic.carries,
                keepsAttributes: keepsAttributes || attributes.asksForOutcome, buffers: &buffers)
            let trace = message.traceparent.flatMap { TraceParent($0) }
            if case .reload(let reload) = message.content, !keepsAttributes, !attributes.haveOptions,
                !(trace?.isSampled ?? false)
            {
                if topic.apps == nil { return .reload(reload) }
                let name = buffers.names.app(reload.app)
                return topic.allows(name) ? .reload(reload) : notAllowed(index, app: name)
            }
            let event = buffers.event(message.content)
            app = event.app
            guard topic.allows(event.app) else { return notAllowed(index, app: event.app) }
            return .event(
                BatchEvent(
                    record: index,
                    position: EventPosition(topic: topic.index, partition: record.partition, offset: record.offset),
                    time: time(of: message, record), event: event, trace: trace, id: message.id,
                    source: message.source, handling: try EventHandling(attributes, in: bytes)))
        } catch {
            // A broken event counts towards the limit of its app, unless the topic may not carry the app's events.
            app = app ?? error.app ?? record.valueRange.flatMap { EventDecoder.app(in: bytes, value: $0) }
            if let app, !topic.allows(app) { return notAllowed(index, app: app, "; besides, \(error.description)") }
            return .rejected(
                RejectedEvent(
                    record: index, app: app, code: error.code.rawValue, message: error.placedMessage,
                    pointer: error.pointer))
        }
    }

    private func notAllowed(_ index: Int, app: String, _ more: String = "") -> RecordContent {
        .rejected(
            RejectedEvent(
                record: index, app: app, code: DeadLetterCause.notAllowed.rawValue,
                message: "/app: the topic may not carry events of app \(Text.quoted(app))\(more)", pointer: "/app"))
    }

    /// Time of the event: its own time, which cannot be after the message's timestamp, or else the timestamp. An
    /// unusable timestamp counts as none. The timestamp may come from the same wrong clock, so that the time is limited
    /// again by the database's clock when the event is applied.
    private func time(of message: DecodedMessage, _ record: KafkaBatch.Record) -> Timestamp? {
        guard let sent = Timestamp(milliseconds: record.timestampMilliseconds) else { return message.time }
        return message.time.map { min($0, sent) } ?? sent
    }
}

/// Names of the Kafka topics that ingest reads.
package struct IngestTopics: Hashable, Sendable {
    package var pushes = EventTopic.pushes.defaultName
    package var appChanges = EventTopic.appChanges.defaultName
    package var widgets = EventTopic.widgets.defaultName
    package var donations = EventTopic.donations.defaultName
    /// Further topics, for example one for each producer, with the sorts of events that they carry.
    package var more: [String: EventTopic] = [:]
    /// Apps whose events a topic may carry, by the topic's name. A topic that is not listed may carry events of any
    /// app.
    package var allowedApps: [String: Set<String>] = [:]

    package init() {}

    /// All names, in the order of ``EventPosition/topic``.
    package var all: [String] { [pushes, appChanges, widgets, donations] + more.keys.sorted() }

    /// A topic that ingest reads.
    struct Input: Sendable {
        /// Index in ``IngestTopics/all``.
        let index: Int16
        let carries: EventTopic
        /// Apps whose events the topic may carry; nil for any.
        let apps: Set<Identifier>?

        func allows(_ app: String) -> Bool { apps?.contains(Identifier(app)) ?? true }
    }

    /// The topics by name.
    var inputs: [String: Input] {
        let sorts = EventTopic.allCases + more.sorted { $0.key < $1.key }.map(\.value)
        let inputs = zip(all, sorts).enumerated().map { index, topic in
            let apps = allowedApps[topic.0].map { Set($0.map(Identifier.init)) }
            return (topic.0, Input(index: Int16(index), carries: topic.1, apps: apps))
        }
        return Dictionary(inputs) { first, _ in first }
    }
}
