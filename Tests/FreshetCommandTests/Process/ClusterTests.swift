// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// Association of the stored positions with a Kafka cluster.
@Suite(.tags(.process), .timeLimit(.patience))
struct ClusterTests {
    @Test(
        "Another cluster is refused until it is accepted; its positions are deleted, or kept for the same logs",
        arguments: [false, true])
    func another(keeps: Bool) async throws {
        try await withInstallation { installation in
            func positions() async throws -> [StoredPosition] {
                try await installation.store.pool.query(.listPositions())
            }
            /// Ends a process in order.
            func stop(_ process: FreshetProcess) async throws {
                process.send(signal: SIGTERM)
                #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
            }
            let (first, _) = try await installation.run()
            try await installation.publish([
                OutgoingEvent(
                    .reload(ReloadRequest(app: Installation.app, audience: .everyone, kinds: .all, reason: .push)),
                    time: Timestamp.now()
                )
            ])
            try await eventually("the event is applied") { try await positions().contains { $0.nextOffset == 1 } }
            try await stop(first)
            try await stop(try await installation.run("--role", "workers").process)

            let id = try #require(try await installation.store.pool.query(.readCluster()).first)
            try await installation.store.sql("UPDATE kafka_cluster SET id = 'elsewhere'")
            for role in ["all", "ingest", "workers", "api"] {
                let refused = try await installation.freshet("run", "--role", role)
                #expect(refused.status == 78, "\(refused.err)")
                for part in ["elsewhere", id, "freshet positions accept-cluster"] {
                    #expect(refused.err.contains(part), "\(refused.err)")
                }
            }
            let doctor = try await installation.freshet("doctor", "--time-limit", "300")
            #expect(doctor.status == 1 && doctor.out.contains("PROBLEM  kafka.cluster"), "\(doctor.out)")
            let stored = try await positions()
            #expect(stored.contains { $0.nextOffset == 1 })

            let arguments = ["positions", "accept-cluster"] + (keeps ? ["--keep-positions"] : [])
            let accepted = try await FreshetProcess.run(arguments, environment: installation.environment)
            #expect(accepted.status == 0, "\(accepted.err)")
            let kept = try await positions()
            #expect(kept.contains { $0.nextOffset == 1 } == keeps)
            #expect(zip(kept, stored).allSatisfy { $0.epoch == $1.epoch + (keeps ? 0 : 1) })
            _ = try await installation.run()
        }
    }
}
