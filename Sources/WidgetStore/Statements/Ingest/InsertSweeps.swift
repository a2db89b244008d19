package import PostgresClient
package import WidgetModel

/// A reload to be materialised by the sweeper: neither O(1) nor bounded.
package struct SweepRequest: Hashable, Sendable {
    package enum Audience: Hashable, Sendable {
        case everyone
        case user(String)
        case device(String)
    }

    package var appID: Int32
    package var audience: Audience
    /// The kinds in scope; empty: all that the app has when the request is recorded.
    package var kindIDs: [Int32]
    /// Canonical JSON object that the configuration must contain; `nil`: any.
    package var matching: String?
    package var events: Int64
    package var urgency: RequestUrgency
    package var cause: EventPosition
    package var reason: ReloadReason

    package init(
        appID: Int32, audience: Audience, kindIDs: [Int32], matching: String?, events: Int64,
        urgency: RequestUrgency, cause: EventPosition, reason: ReloadReason
    ) {
        self.appID = appID
        self.audience = audience
        self.kindIDs = kindIDs
        self.matching = matching
        self.events = events
        self.urgency = urgency
        self.cause = cause
        self.reason = reason
    }
}

extension SweepRequest {
    /// The order in which a transaction records several.
    package static func areInOrder(_ left: SweepRequest, _ right: SweepRequest) -> Bool {
        if left.appID != right.appID { return left.appID < right.appID }
        if left.kindIDs != right.kindIDs { return left.kindIDs.lexicographicallyPrecedes(right.kindIDs) }
        return (left.matching ?? "").utf8.lexicographicallyPrecedes((right.matching ?? "").utf8)
    }
}

/// Records one sweep; an equal one that has not started yet takes the events in.
package struct InsertSweep: PostgresStatement {
    package static let sql = """
        WITH scope AS (
            SELECT CASE WHEN cardinality($4::int4[]) > 0 THEN $4::int4[]
                        ELSE (SELECT coalesce(array_agg(k.id ORDER BY k.id), '{}') FROM kind k
                              WHERE k.app_id = $1::int4 AND k.retired_at IS NULL) END AS kind_ids
        )
        INSERT INTO sweep AS s (predicate, app_id, audience, audience_id, kind_ids, matching, events, free, forced,
                                cause_topic, cause_partition, cause_offset, cause_reason)
        SELECT md5(ROW ($1::int4, $2::int2, $3::text, kind_ids, $5::text)::text)::uuid,
               $1::int4, $2::int2, $3::text, kind_ids, $5::text, $6::int8, $7::bool, $11::bool, $8::int2, $9::int4, $10::int8,
               $12::int2
        FROM scope
        ON CONFLICT (predicate) WHERE NOT started DO UPDATE
            SET events = s.events + excluded.events, free = s.free OR excluded.free,
                forced = s.forced OR excluded.forced, cause_reason = excluded.cause_reason,
                cause_topic = excluded.cause_topic, cause_partition = excluded.cause_partition,
                cause_offset = excluded.cause_offset
        """

    let request: SweepRequest

    package init(_ request: SweepRequest) {
        self.request = request
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(request.appID)
        switch request.audience {
        case .everyone:
            parameters.append(Int16(0))
            parameters.append(String?.none)
        case .user(let id):
            parameters.append(Int16(1))
            parameters.append(id)
        case .device(let id):
            parameters.append(Int16(2))
            parameters.append(id)
        }
        parameters.append(array: request.kindIDs)
        parameters.append(request.matching)
        parameters.append(request.events)
        parameters.append(request.urgency >= .free)
        parameters.append(request.cause.topic)
        parameters.append(request.cause.partition)
        parameters.append(request.cause.offset)
        parameters.append(request.urgency >= .forced)
        parameters.append(request.reason.rawValue)
    }
}
