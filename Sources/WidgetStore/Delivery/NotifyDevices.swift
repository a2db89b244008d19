// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

private let input = InputColumns<(appID: Int32, key: StackPlan.Key)>([
    .init("app_id") { $0.appID }, .init("user_id") { $0.key.user }, .init("device_id") { $0.key.device },
])

/// Like a replay, since no timeline of the device need have changed.
private let notifySQL = """
    WITH locked AS MATERIALIZED (
        SELECT r.id, r.app_id, r.listed_at,
               \(onDeliveryGrid(
                   "greatest(now(), r.retry_at, r.eligible_at)", width: "interval '100 milliseconds'")) AS due_at
        FROM registration r JOIN (SELECT DISTINCT app_id, user_id, device_id FROM \(input.rows("i"))) i
            ON r.app_id = i.app_id AND r.user_id = i.user_id AND r.device_id = i.device_id
        WHERE r.channel <> 0
        ORDER BY r.id FOR NO KEY UPDATE OF r
    ), notified AS (
        UPDATE registration r
        SET changed = r.changed + 1, replays = true, listed_at = least(r.listed_at, l.due_at),
            changed_at = CASE WHEN r.changed > r.sent THEN r.changed_at ELSE now() END
        FROM locked l WHERE r.id = l.id
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT app_id, due_at, due_at, array_agg(id ORDER BY id) FROM locked
        WHERE due_at < listed_at GROUP BY app_id, due_at
    )
    SELECT id FROM locked
    """

extension PostgresStatement where Self == Statements {
    /// Has the devices of stacks notified although no content of their widgets need have changed, as soon as the limits
    /// of their pushes allow. Answers the registrations.
    package static func notifyDevices(of stacks: [(appID: Int32, key: StackPlan.Key)]) -> PostgresQuery<Int64> {
        PostgresQuery(notifySQL, binding: input.parameters(stacks)) { row in try row.value("id") }
    }
}
