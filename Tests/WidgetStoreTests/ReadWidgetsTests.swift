// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Reading widgets for lifecycle events", .timeLimit(.patience))
struct ReadWidgetsTests {
    @Test("A widget moved by a concurrent transaction is read with its new configuration")
    func movedMeanwhile() async throws {
        try await withStore { store in
            let old = try await store.place([.test("w1", configuration: #"{"card":"acme"}"#)])[0]
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let scope = WidgetScope(widgets: [(appID: app.id, id: "w1")], devices: [], deviceLimit: 10)
            let new = "00000000-0000-0000-0000-000000000002"

            try await store.pool.withTransaction { mover in
                try await mover.simple(
                    """
                    INSERT INTO timeline (id, identity, kind_id, configuration)
                    SELECT 999, '\(new)', kind_id, '{"card":"globex"}' FROM timeline WHERE identity = '\(old)';
                    UPDATE widget SET timeline_id = 999 WHERE id = 'w1'
                    """)
                async let read = store.pool.withTransaction { connection in
                    var pipeline = PostgresPipeline()
                    _ = pipeline.append(.lockWidgets(scope))
                    let rows = pipeline.append(.readWidgets(scope))
                    return try await connection.run(pipeline).rows(rows)
                }
                try await eventually("the reader waits for the lock") {
                    try await store.integer(
                        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                            + "AND datname = current_database()") > 0
                }
                try await mover.simple("COMMIT; BEGIN")
                let widget = try #require(try await read.first)
                #expect(widget.timeline?.id.description == new && widget.timeline?.row == 999)
                #expect(widget.configuration == #"{"card":"globex"}"#)
            }
        }
    }
}
