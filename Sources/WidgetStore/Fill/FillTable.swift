package import PostgresClient
import WidgetModel

/// The tables that a fill writes, and the commands for it.
package enum FillTable {
    /// In the order in which one lock after the other is taken.
    package static let names = ["timeline", "widget", "work"]

    /// Locks the tables until the end of the transaction. Waits only for a vacuum to yield: nothing else may use them.
    static let lock = """
        SET LOCAL lock_timeout = '20s';
        LOCK TABLE \(names.joined(separator: ", ")) IN ACCESS EXCLUSIVE MODE
        """

    /// For the visibility map, without which reading only an index reads the table too, and for the planner.
    static let settle = "VACUUM (ANALYZE) \(names.joined(separator: ", "))"

    /// Of a session that inserts or makes indexes.
    static func session(memory megabytes: Int) -> String {
        "SET statement_timeout = 0; SET maintenance_work_mem = '\(megabytes)MB'"
    }
}

/// A row of a population.
struct FilledTimelineRow: Sendable {
    let id: Int64
    let timeline: FilledTimeline
    let generation: Int64
    let revision: Int64
    let renderedAt: Timestamp
    let policyAt: Timestamp?
    let listedAt: Timestamp?

    fileprivate var hasContent: Bool { timeline.content != nil }
}

private let timelineColumns = InputColumns<FilledTimelineRow>([
    .init("id") { $0.id }, .init("identity") { $0.timeline.identity.id },
    .init("kind_id") { $0.timeline.kind.id }, .init("family") { $0.timeline.identity.family },
    .init("configuration") { $0.timeline.identity.configuration.canonical },
    .init("locale") { $0.timeline.identity.locale }, .init("time_zone") { $0.timeline.identity.timeZone },
    .init("user_id") { $0.timeline.identity.user }, .init("requested") { _ in Int64(1) },
    .init("rendered") { _ in Int64(1) }, .init("free_requested") { _ in Int64(1) },
    .init("generation") { $0.generation }, .init("revision") { $0.revision },
    .init("content_revision") { $0.hasContent ? $0.revision : 0 },
    .init("listed_at") { $0.listedAt ?? .distantFuture }, .init("listed_lane") { _ in ReloadLane.scheduled },
    .init("policy_at") { $0.policyAt ?? .distantFuture }, .init("rendered_at") { $0.renderedAt },
    .init("requested_at") { $0.renderedAt }, .init("placed_at") { $0.renderedAt },
    .init("stored_at") { $0.hasContent ? $0.renderedAt : nil },
    .init("hash") { $0.hasContent ? $0.timeline.hash : nil }, .init("content") { $0.timeline.content },
])

private let fillTimelinesSQL =
    "INSERT INTO timeline (\(timelineColumns.names)) SELECT \(timelineColumns.names) FROM \(timelineColumns.rows("i"))"

/// A row of a population.
struct FilledWidgetRow: Sendable {
    let widget: FilledWidget
    let timelineID: Int64
    let placedAt: Timestamp

    fileprivate var placement: WidgetPlacement { widget.placement }
}

private let widgetColumns = InputColumns<FilledWidgetRow>([
    .init("app_id") { $0.widget.kind.appID }, .init("id") { $0.placement.widget },
    .init("kind_id") { $0.widget.kind.id }, .init("family") { $0.placement.family },
    .init("user_id") { $0.placement.user }, .init("device_id") { $0.placement.device },
    .init("locale") { $0.placement.environment.locale }, .init("time_zone") { $0.placement.environment.timeZone },
    .init("timeline_id") { $0.timelineID }, .init("placed_at") { $0.placedAt },
    .init("changed_at") { $0.placedAt },
])

private let fillWidgetsSQL =
    "INSERT INTO widget (\(widgetColumns.names)) SELECT \(widgetColumns.names) FROM \(widgetColumns.rows("i"))"

package struct FillIndex: Hashable, Sendable {
    package let table: String
    package let drop: String
    package let create: String
}

extension PostgresStatement where Self == Statements {
    /// Indexes of the tables that a fill writes, with the statements that drop each and make it again.
    package static func fillIndexes(tables: [String] = FillTable.names) -> PostgresQuery<FillIndex> {
        PostgresQuery(
            """
            SELECT c.relname::text AS table_name,
                   CASE WHEN k.oid IS NULL THEN format('DROP INDEX %s', i.oid::regclass)
                        ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', c.oid::regclass, k.conname) END AS drop,
                   CASE WHEN k.oid IS NULL THEN pg_get_indexdef(i.oid)
                        ELSE format('ALTER TABLE %s ADD CONSTRAINT %I %s', c.oid::regclass, k.conname,
                                    pg_get_constraintdef(k.oid)) END AS create
            FROM pg_index x
            JOIN pg_class c ON c.oid = x.indrelid
            JOIN pg_class i ON i.oid = x.indexrelid
            LEFT JOIN pg_constraint k ON k.conindid = i.oid AND k.contype IN ('p', 'u')
            WHERE c.oid IN (SELECT t::regclass FROM unnest($1::text[]) AS t)
            ORDER BY c.relname, i.relname
            """, PostgresArray(tables)
        ) { row in
            FillIndex(table: try row.value("table_name"), drop: try row.value("drop"), create: try row.value("create"))
        }
    }

    /// Whether there are no widgets, timelines and lists.
    package static func fillIsEmpty() -> PostgresQuery<Bool> {
        PostgresQuery(
            """
            SELECT NOT EXISTS (SELECT 1 FROM widget) AND NOT EXISTS (SELECT 1 FROM timeline)
                AND NOT EXISTS (SELECT 1 FROM work) AS empty
            """
        ) { row in try row.value("empty") }
    }

    /// Inserts timelines of a population.
    static func fillTimelines(_ rows: [FilledTimelineRow]) -> PostgresQuery<Void> {
        PostgresQuery(fillTimelinesSQL, binding: timelineColumns.parameters(rows))
    }

    /// Inserts widgets of a population.
    static func fillWidgets(_ rows: [FilledWidgetRow]) -> PostgresQuery<Void> {
        PostgresQuery(fillWidgetsSQL, binding: widgetColumns.parameters(rows))
    }
}
