// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Most timelines of a kind whose budgets are read.
private let timelines = 1_000

extension WidgetStore {
    /// Rest of the daily budgets of a kind's oldest timelines, up to 1,000; nil if it has none, or developer mode lifts
    /// the budgets.
    package func budget(of kind: RegisteredKind) async throws(PostgresError) -> KindBudget? {
        guard !kind.isDeveloperMode else { return nil }
        let rows = try await query(.readBudgets(kindID: kind.id))
        guard let now = rows.first?.readAt else { return nil }
        return KindBudget(of: rows.map { ($0.ledger, $0.views) }, rules: kind.rules, at: now)
    }
}

extension PostgresStatement where Self == Statements {
    /// Ledgers and views of a kind's oldest timelines, without those that no widget shows.
    package static func readBudgets(kindID: Int32) -> PostgresQuery<
        (ledger: BudgetLedger, views: ViewStatistics, readAt: Timestamp)
    > {
        PostgresQuery(
            """
            SELECT t.budget, t.view_rate, t.viewed_at, t.placed_at, now() AS read_at FROM timeline t
            WHERE t.kind_id = $1::int4 AND NOT t.orphaned
            ORDER BY t.id LIMIT \(timelines)
            """, kindID
        ) { row in
            let readAt: Timestamp = try row.value("read_at")
            let views = try ViewStatistics(
                rate: row.value("view_rate"), viewedAt: row.optional("viewed_at"), placedAt: row.value("placed_at"),
                at: readAt)
            return (ledger: try row.ledger("budget"), views: views, readAt: readAt)
        }
    }
}
