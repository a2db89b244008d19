import WidgetModel
import WidgetStore

/// Targeted requests of one sort of audience, folded: those that are for the same audience and kind, and for the same
/// match if they have one, are one row of SQL input.
struct MarkTable: Sendable {
    /// What is known of a row besides its key.
    private struct Row {
        var appID: Int32
        var kindID: Int32
        var events: Int64
        var offset: Int64
        var partition: Int32
        var topic: Int16
        var urgency: RequestUrgency
        var lane: Int16
        var reason: ReloadReason
    }

    /// What makes two requests with a match one row of input.
    private struct MatchKey: Hashable {
        let audience: ScopedIdentifier
        let kindID: Int32?
        let matching: WidgetConfiguration
    }

    /// Stands for all kinds; the database's ids are positive.
    private static let allKinds: Int32 = -1

    private var keys = ByteTable()
    private var rows: [Row] = []
    private var matches: [MatchKey: TimelineMark] = [:]

    var count: Int { rows.count + matches.count }
    var isEmpty: Bool { rows.isEmpty && matches.isEmpty }

    var appIDs: Set<Int32> {
        var ids: Set<Int32> = []
        var last: Int32?
        for row in rows where row.appID != last {
            ids.insert(row.appID)
            last = row.appID
        }
        return ids.union(matches.values.lazy.map(\.appID))
    }

    /// The kinds and lanes of all requests; nil when some are for all kinds.
    var laneWork: Set<LaneWork>? {
        var work: Set<LaneWork> = []
        var last: (kindID: Int32, lane: Int16)?
        for row in rows where last?.kindID != row.kindID || last?.lane != row.lane {
            guard row.kindID != Self.allKinds, let lane = ReloadLane(rawValue: row.lane) else { return nil }
            work.insert(LaneWork(kindID: row.kindID, lane: lane))
            last = (row.kindID, row.lane)
        }
        for mark in matches.values {
            guard let id = mark.kindID, let lane = ReloadLane(rawValue: mark.lane) else { return nil }
            work.insert(LaneWork(kindID: id, lane: lane))
        }
        return work
    }

    /// Adds a request for the audience whose id lies in `bytes`; later ones must come later.
    mutating func add(
        appID: Int32, kindID: Int32?, audience: Range<Int>, in bytes: RawSpan, reason: ReloadReason,
        at position: EventPosition
    ) {
        let kind = kindID ?? Self.allKinds
        let tag = UInt64(UInt32(bitPattern: appID)) << 32 | UInt64(UInt32(bitPattern: kind))
        let number = keys.number(of: audience, in: bytes, tag: tag)
        let urgency = reason.urgency
        let lane = reason.lane.rawValue
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
            appID: appID, audienceID: audience, kindID: kindID, matching: matching.canonical, events: 1,
            urgency: reason.urgency, lane: reason.lane.rawValue, cause: position, reason: reason)
        let key = MatchKey(audience: ScopedIdentifier(appID, audience), kindID: kindID, matching: matching)
        if let earlier = matches[key] {
            mark.events += earlier.events
            mark.urgency = max(mark.urgency, earlier.urgency)
            mark.lane = min(mark.lane, earlier.lane)
        }
        matches[key] = mark
    }

    /// In the order of their events: of those that hit one timeline, the row notes the last.
    var values: [TimelineMark] {
        var marks: [TimelineMark] = []
        marks.reserveCapacity(count)
        for number in order() {
            let row = rows[number]
            marks.append(
                TimelineMark(
                    appID: row.appID, audienceID: String(decoding: keys.key(number), as: UTF8.self),
                    kindID: row.kindID == Self.allKinds ? nil : row.kindID, matching: nil, events: row.events,
                    urgency: row.urgency, lane: row.lane,
                    cause: EventPosition(topic: row.topic, partition: row.partition, offset: row.offset),
                    reason: row.reason))
        }
        guard !matches.isEmpty else { return marks }
        marks += matches.values
        return marks.sorted { Self.precedes($0.cause, $1.cause) }
    }

    private func order() -> [Int] {
        Array(rows.indices).sorted { left, right in
            let (left, right) = (rows[left], rows[right])
            if left.topic != right.topic { return left.topic < right.topic }
            if left.partition != right.partition { return left.partition < right.partition }
            return left.offset < right.offset
        }
    }

    private static func precedes(_ left: EventPosition, _ right: EventPosition) -> Bool {
        (left.topic, left.partition, left.offset) < (right.topic, right.partition, right.offset)
    }
}
