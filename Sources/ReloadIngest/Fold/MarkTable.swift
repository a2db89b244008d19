import WidgetModel
import WidgetStore

/// Folded requests for one sort of audience: one row of SQL input for each audience, kind and match.
struct MarkTable: Sendable {
    /// Values of a row besides its key.
    private struct Row {
        var appID: Int32
        var kindID: Int32
        var events: Int64
        var offset: Int64
        var partition: Int32
        var topic: Int16
        var urgency: RequestUrgency
        var lane: ReloadLane
        var reason: ReloadReason
    }

    /// Key of requests with a match.
    private struct MatchKey: Hashable {
        let audience: ScopedIdentifier
        let kindID: Int32?
        let matching: WidgetConfiguration
    }

    /// Stands for all kinds, since ids are positive.
    private static let allKinds: Int32 = -1

    private let audience: TimelineMark.Audience
    private var keys = ByteTable()
    private var rows: [Row] = []
    private var matches: [MatchKey: TimelineMark] = [:]

    var count: Int { rows.count + matches.count }
    var isEmpty: Bool { rows.isEmpty && matches.isEmpty }

    init(_ audience: TimelineMark.Audience) {
        self.audience = audience
    }

    /// Calls `body` with app, kind (nil for all) and lane of the rows; once for equal neighbours.
    func forEachScope(_ body: (Int32, Int32?, ReloadLane) -> Void) {
        var last: (appID: Int32, kindID: Int32, lane: ReloadLane)?
        for row in rows where last.map({ $0 != (row.appID, row.kindID, row.lane) }) ?? true {
            last = (row.appID, row.kindID, row.lane)
            body(row.appID, row.kindID == Self.allKinds ? nil : row.kindID, row.lane)
        }
        for mark in matches.values { body(mark.appID, mark.kindID, mark.lane) }
    }

    /// Adds a request for the audience whose id is in `bytes`. Requests must come in log order.
    mutating func add(
        appID: Int32, kindID: Int32?, audience: Range<Int>, in bytes: RawSpan, reason: ReloadReason,
        at position: EventPosition
    ) {
        let kind = kindID ?? Self.allKinds
        let tag = UInt64(UInt32(bitPattern: appID)) << 32 | UInt64(UInt32(bitPattern: kind))
        let number = keys.number(of: audience, in: bytes, tag: tag)
        let urgency = reason.urgency
        let lane = reason.lane
        if number < rows.count {
            rows[number].events += 1
            rows[number].offset = position.offset
            rows[number].partition = position.partition
            rows[number].topic = position.topic
            rows[number].reason = reason
            if rows[number].urgency < urgency { rows[number].urgency = urgency }
            if rows[number].lane > lane { rows[number].lane = lane }
        } else {
            rows.append(
                Row(
                    appID: appID, kindID: kind, events: 1, offset: position.offset, partition: position.partition,
                    topic: position.topic, urgency: urgency, lane: lane, reason: reason))
        }
    }

    mutating func add(
        appID: Int32, kindID: Int32?, audience: String, matching: WidgetConfiguration?, reason: ReloadReason,
        at position: EventPosition
    ) {
        guard let matching else {
            let bytes = Array(audience.utf8)
            add(
                appID: appID, kindID: kindID, audience: 0..<bytes.count, in: bytes.span.bytes, reason: reason,
                at: position)
            return
        }
        var mark = TimelineMark(
            audience: self.audience, appID: appID, audienceID: audience, kindID: kindID,
            matching: matching.canonical, events: 1, urgency: reason.urgency, lane: reason.lane, cause: position,
            reason: reason)
        let key = MatchKey(audience: ScopedIdentifier(appID, audience), kindID: kindID, matching: matching)
        if let earlier = matches[key] {
            mark.events += earlier.events
            mark.urgency = max(mark.urgency, earlier.urgency)
            mark.lane = min(mark.lane, earlier.lane)
        }
        matches[key] = mark
    }

    /// Marks in the order of their events, since a timeline's row keeps the last cause.
    var values: [TimelineMark] {
        var marks: [TimelineMark] = []
        marks.reserveCapacity(count)
        for number in order() {
            let row = rows[number]
            marks.append(
                TimelineMark(
                    audience: audience, appID: row.appID,
                    audienceID: String(decoding: keys.key(number), as: UTF8.self),
                    kindID: row.kindID == Self.allKinds ? nil : row.kindID, matching: nil, events: row.events,
                    urgency: row.urgency, lane: row.lane,
                    cause: EventPosition(topic: row.topic, partition: row.partition, offset: row.offset),
                    reason: row.reason))
        }
        guard !matches.isEmpty else { return marks }
        marks += matches.values
        return marks.sorted { $0.cause.precedes($1.cause) }
    }

    private func order() -> [Int] {
        Array(rows.indices).sorted { left, right in
            let (left, right) = (rows[left], rows[right])
            if left.topic != right.topic { return left.topic < right.topic }
            if left.partition != right.partition { return left.partition < right.partition }
            return left.offset < right.offset
        }
    }
}

extension EventPosition {
    /// Whether the position comes first in the order in which requests are written, which is log order in a partition.
    func precedes(_ other: EventPosition) -> Bool {
        (topic, partition, offset) < (other.topic, other.partition, other.offset)
    }
}
