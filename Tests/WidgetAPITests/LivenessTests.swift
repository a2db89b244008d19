// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import HummingbirdTesting
import JSON
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite(.tags(.api), .timeLimit(.patience))
struct LivenessTests {
    /// A clock that the test advances.
    private final class ManualTime: Sendable {
        private let time: Mutex<ContinuousClock.Instant> = Mutex(.now)
        var now: ContinuousClock.Instant { time.withLock { $0 } }
        func advance(_ duration: Duration) { time.withLock { $0 += duration } }
    }

    @Test("A loop without progress is reported, an idle or active one is not")
    func heartbeat() {
        let time = ManualTime()
        let heartbeat = Heartbeat { time.now }
        let liveness = [
            LivenessProbe(name: "ingest", limit: .seconds(60)) { heartbeat.silence }
        ]
        time.advance(.seconds(3600))
        #expect(liveness.wedged().isEmpty, "the loop has not started")
        heartbeat.beat()
        time.advance(.seconds(60))
        #expect(liveness.wedged().isEmpty)
        time.advance(.seconds(1))
        #expect(liveness.wedged().map(\.name) == ["ingest"] && liveness.wedged().map(\.silence) == [.seconds(61)])
        heartbeat.beat()
        #expect(liveness.wedged().isEmpty)
        heartbeat.rest()
        time.advance(.seconds(3600))
        #expect(liveness.wedged().isEmpty, "it waits")
    }

    @Test("Liveness and readiness report wedged loops and missing dependencies")
    func routes() async throws {
        let time = ManualTime()
        let heartbeat = Heartbeat { time.now }
        let router = Router(context: APIContext.self)
        router.addHealth(
            Readiness(checks: [ReadinessCheck(name: "postgres") { "no connection" }]),
            [
                LivenessProbe(name: "workers", limit: .seconds(5)) { heartbeat.silence },
                LivenessProbe(name: "consumer", limit: .seconds(5)) { nil },
            ])
        try await Application(router: router, logger: quiet).test(.router) { client in
            heartbeat.beat()
            // A missing dependency is no reason to restart the process.
            var (status, _, document) = try await client.json("/health/live")
            #expect(status == 200 && document == ["status": "live"])
            (status, _, document) = try await client.json("/health/ready")
            #expect(status == 503)
            #expect(document["missing"] == [["name": "postgres", "reason": "no connection"]])
            time.advance(.seconds(7))
            (status, _, document) = try await client.json("/health/live")
            #expect(status == 503)
            #expect(document == ["status": "wedged", "loops": [["name": "workers", "silentSeconds": 7]]])
        }
    }
}
