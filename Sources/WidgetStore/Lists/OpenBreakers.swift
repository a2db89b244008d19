// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// State of a provider's circuit breaker in a worker process.
package struct BreakerState: Hashable, Sendable {
    /// Name of the app.
    package let app: String
    package let appID: Int32
    /// URL of the provider.
    package let provider: String
    /// Time until a request may probe the provider; nil if the breaker is closed.
    package let rest: Duration?
    /// Reason and message of the latest failed request.
    package let message: String

    package init(app: String, appID: Int32, provider: String, rest: Duration?, message: String) {
        (self.app, self.appID, self.provider, self.rest, self.message) = (app, appID, provider, rest, message)
    }
}

private let input = InputColumns<BreakerState>([
    .init("app_id") { $0.appID }, .init("provider") { $0.provider },
    .init("rest") { $0.rest.map { max(0, $0.wholeMilliseconds) } }, .init("message") { $0.message },
])

private let recordBreakersSQL = """
    WITH closed AS (
        DELETE FROM open_breaker b USING \(input.rows("i"))
        WHERE i.rest IS NULL AND b.app_id = i.app_id AND b.provider = i.provider
            AND b.worker = $\(input.count + 1)::uuid
    )
    INSERT INTO open_breaker (app_id, provider, worker, probe_at, message)
    SELECT a.id, i.provider, o.id, now() + i.rest * interval '1 millisecond', i.message
    FROM \(input.rows("i")) JOIN app a ON a.id = i.app_id JOIN worker o ON o.id = $\(input.count + 1)::uuid
    WHERE i.rest IS NOT NULL
    ORDER BY a.id, i.provider
    ON CONFLICT (app_id, provider, worker) DO UPDATE SET probe_at = excluded.probe_at, message = excluded.message
    """

/// SQL condition: the worker process `o` is at work. The breakers of one that was killed count for a minute, several
/// times the interval of registrations.
private let isAtWork = "o.left_token IS NULL AND o.seen_at > now() - interval '1 minute'"

/// SQL: open breakers `b` of the processes that are at work.
let openBreakers = "open_breaker b JOIN worker o ON o.id = b.worker AND \(isAtWork)"

/// SQL: the columns of a provider's outage, whose breakers are those of ``openBreakers``; NULL without any.
let outageColumns = """
    min(b.opened_at) AS outage_since, min(b.probe_at) AS outage_probe_at,
    (array_agg(b.message ORDER BY b.probe_at DESC))[1] AS outage_message, count(*) AS outage_processes,
    (SELECT count(*) FROM worker o WHERE \(isAtWork)) AS outage_workers
    """

extension ProviderOutage {
    /// Reads the columns of ``outageColumns``.
    init(of provider: String, _ row: borrowing PostgresRow) throws(PostgresError) {
        try self.init(
            provider: provider, since: row.value("outage_since"), probeAt: row.value("outage_probe_at"),
            message: row.value("outage_message"), processes: row.value("outage_processes"),
            workers: row.value("outage_workers"))
    }
}

extension PostgresStatement where Self == Statements {
    /// Stores the states of breakers of a registered worker process, open ones in key order.
    ///
    /// - Parameter states: at most one for each provider.
    package static func recordBreakers(_ states: [BreakerState], worker: UInt128) -> PostgresQuery<Void> {
        PostgresQuery(recordBreakersSQL, binding: input.parameters(states, worker))
    }

    /// Providers of an app's kinds with open breakers. That of a provider which no kind names any more is never probed.
    package static func listOutages(app: String) -> PostgresQuery<ProviderOutage> {
        PostgresQuery(
            """
            SELECT b.provider, \(outageColumns)
            FROM app a JOIN \(openBreakers) ON b.app_id = a.id
            WHERE a.name = $1::text AND EXISTS (
                SELECT FROM kind k JOIN kind_definition d ON d.kind_id = k.id
                WHERE k.app_id = a.id AND k.retired_at IS NULL AND d.definition->>'providerURL' = b.provider)
            GROUP BY b.provider
            ORDER BY b.provider
            """, app
        ) { row in try ProviderOutage(of: row.value("provider"), row) }
    }
}
