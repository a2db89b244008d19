// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel

/// A widget with the state of the timeline that it shows.
package struct WidgetDetail: Sendable {
    package let app: String
    package let id: String
    package let kind: String
    /// Nil for a family of a newer version.
    package let family: WidgetFamily?
    package let user: String
    package let device: String
    package let environment: WidgetEnvironment
    /// `nil` once the widget is removed.
    package let timelineID: TimelineID?
    /// Canonical configuration set by the person.
    package let configuration: String?
    /// The kind's definition if it does not allow some values of the configuration; else nil. Also nil if this version
    /// cannot read it.
    package let misfitting: KindDefinition?
    package let placedAt: Timestamp
    package let changedAt: Timestamp
    /// Last counted view of the timeline, and the number of hours with a view.
    package let viewedAt: Timestamp?
    package let views: Int32
    /// Nil once the widget is removed.
    package let state: WidgetState?

    /// Values that the definition does not allow, for which defaults are used. Pointers are into the configuration.
    package var misfits: [ModelError] {
        guard let intent = misfitting?.intent, let configuration, let family else { return [] }
        return intent.resolve(WidgetConfiguration(storedCanonical: configuration), family: family).problems
    }
}

/// Selection of an app's widgets.
package struct WidgetFilter: Hashable, Sendable {
    package var app: String
    package var user: String?
    package var device: String?
    package var kind: String?
    package var widget: String?
    /// Lists only widgets in this state, of ``WidgetState/examined`` in id order.
    package var state: WidgetState?
    /// Lower bound of the ids, exclusive.
    package var after: String

    package init(
        app: String, user: String? = nil, device: String? = nil, kind: String? = nil, widget: String? = nil,
        state: WidgetState? = nil, after: String = ""
    ) {
        (self.app, self.user, self.device) = (app, user, device)
        (self.kind, self.widget, self.state, self.after) = (kind, widget, state, after)
    }
}

private func branch(_ condition: String) -> String {
    """
    (SELECT w.* FROM widget w
     WHERE \(condition) AND w.app_id = (SELECT a.id FROM app a WHERE a.name = $1::text) AND w.id > $6::text
         AND w.device_id <> '' AND w.kind_id NOT IN (SELECT k.id FROM kind k WHERE k.retired_at IS NOT NULL)
         AND ($4::text IS NULL OR w.kind_id = (
             SELECT k.id FROM kind k JOIN app a ON a.id = k.app_id WHERE a.name = $1::text AND k.name = $4::text))
     ORDER BY w.id LIMIT $7::int8)
    """
}

/// The widgets of a filter without its state as the rows `page`: at most `$7` after the id `$6`.
private let pageSQL = """
    WITH page AS (
        \(branch("""
            $5::text IS NOT NULL AND w.id = $5::text AND ($2::text IS NULL OR w.user_id = $2::text)
                AND ($3::text IS NULL OR w.device_id = $3::text)
            """))
        UNION ALL
        \(branch("""
            $5::text IS NULL AND $2::text IS NOT NULL AND w.user_id = $2::text AND w.timeline_id IS NOT NULL
                AND ($3::text IS NULL OR w.device_id = $3::text)
            """))
        UNION ALL
        \(branch("""
            $5::text IS NULL AND $2::text IS NULL AND $3::text IS NOT NULL AND w.device_id = $3::text
                AND w.timeline_id IS NOT NULL
            """))
        UNION ALL
        \(branch("""
            $5::text IS NULL AND $2::text IS NULL AND $3::text IS NULL AND w.timeline_id IS NOT NULL
            """))
    )
    """

private let listWidgetsSQL = """
    \(pageSQL)
    SELECT a.name AS app, w.id, k.name AS kind, w.family, w.user_id, w.device_id, w.locale, w.time_zone, t.identity,
           coalesce(w.configuration, t.configuration) AS configuration,
           CASE WHEN w.misfits > 0 THEN (SELECT d.definition::text FROM kind_definition d WHERE d.kind_id = k.id) END
               AS misfitting, w.placed_at, w.changed_at, t.viewed_at,
           coalesce(t.views, 0) AS views, s.state
    FROM page w
    JOIN app a ON a.id = w.app_id
    JOIN kind k ON k.id = w.kind_id
    LEFT JOIN timeline t ON t.id = w.timeline_id
    CROSS JOIN LATERAL (SELECT \(WidgetState.sql) AS state) s
    WHERE $8::text IS NULL OR s.state = $8::text
    ORDER BY w.id
    LIMIT $9::int8
    """

private let countWidgetStatesSQL = """
    \(pageSQL)
    SELECT k.name AS kind, s.state, count(*) AS widgets, max(w.id) AS last
    FROM page w
    JOIN app a ON a.id = w.app_id
    JOIN kind k ON k.id = w.kind_id
    JOIN timeline t ON t.id = w.timeline_id
    CROSS JOIN LATERAL (SELECT \(WidgetState.sql) AS state) s
    GROUP BY k.name, s.state
    """

extension PostgresStatement where Self == Statements {
    /// Lists an app's widgets in id order, removed ones only by id.
    ///
    /// The filter selects one of several branches: a single condition would read every widget of the app to find one
    /// person's.
    package static func listWidgets(_ filter: WidgetFilter, limit: Int) -> PostgresQuery<WidgetDetail> {
        PostgresQuery(
            listWidgetsSQL, filter.app, filter.user, filter.device, filter.kind, filter.widget, filter.after,
            filter.state == nil ? limit : WidgetState.examined, filter.state, limit
        ) { row in
            try WidgetDetail(
                app: row.value("app"), id: row.value("id"), kind: row.value("kind"), family: row.family("family"),
                user: row.value("user_id"), device: row.value("device_id"),
                environment: WidgetEnvironment(storedLocale: row.value("locale"), timeZone: row.value("time_zone")),
                timelineID: row.optional("identity"), configuration: row.optional("configuration"),
                misfitting: row.optional("misfitting", as: String.self).flatMap {
                    try? KindDefinition(json: JSONValue.parse($0))
                }, placedAt: row.value("placed_at"), changedAt: row.value("changed_at"),
                viewedAt: row.optional("viewed_at"), views: row.value("views"),
                state: row.optional("state"))
        }
    }

    /// Numbers of the widgets of a filter, whatever their state, by kind and state: of the first
    /// ``WidgetState/examined`` after the filter's lower bound.
    package static func countWidgetStates(_ filter: WidgetFilter) -> PostgresQuery<WidgetStateCount> {
        PostgresQuery(
            countWidgetStatesSQL, filter.app, filter.user, filter.device, filter.kind, filter.widget, filter.after,
            WidgetState.examined
        ) { row in
            try WidgetStateCount(
                kind: row.value("kind"), state: row.value("state"), widgets: row.value("widgets"),
                last: row.value("last"))
        }
    }
}
