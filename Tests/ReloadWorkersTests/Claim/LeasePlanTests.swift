// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing
import WidgetModel

@testable import ReloadWorkers
@testable import WidgetStore

struct LeasePlanTests {
    private func kind(_ id: Int32, timeout: Duration) -> RegisteredKind {
        RegisteredKind(
            id: id, appID: 1, app: "com.example", isDeveloperMode: false,
            definition: KindDefinition(
                name: "K\(id)", providerURL: "http://p", timeout: timeout, placeholder: .object(JSONObject())),
            isRetired: false)
    }

    @Test func aLeaseHoldsTheRequestThePublishingAndTheDatabase() {
        let plan = WorkerConfiguration()
        #expect(plan.lease(for: kind(1, timeout: .seconds(1)), lane: .push, publishing: .seconds(20)) == .seconds(30))
        #expect(plan.lease(for: kind(1, timeout: .seconds(10)), lane: .push, publishing: .seconds(20)) == .seconds(35))
        #expect(
            plan.lease(for: kind(1, timeout: .seconds(120)), lane: .bulk, publishing: .seconds(20)) == .seconds(145))
    }

    @Test func inTheInteractiveLaneItHoldsTheSnapshotToo() {
        let plan = WorkerConfiguration()
        #expect(
            plan.lease(for: kind(1, timeout: .seconds(10)), lane: .interactive, publishing: .seconds(20))
                == .seconds(37))
        #expect(
            plan.lease(for: kind(1, timeout: .seconds(120)), lane: .interactive, publishing: .seconds(20))
                == .seconds(147))
        let short = kind(1, timeout: .seconds(1)).definition
        #expect(short.snapshotLimit(.seconds(2)) == .seconds(1), "never longer than the kind's")
    }

    @Test func slowKindsAreClaimedApart() {
        let plan = WorkerConfiguration()
        let kinds = [
            1: kind(1, timeout: .seconds(1)), 2: kind(2, timeout: .seconds(120)), 3: kind(3, timeout: .seconds(2)),
        ]
        .reduce(into: [Int32: RegisteredKind]()) { $0[Int32($1.key)] = $1.value }
        let requests = [1, 2, 3].map { ClaimRequest(KindLane(kindID: $0, lane: .push), lists: 5) }
        let groups = plan.grouped(requests, kinds: kinds, publishing: .seconds(20))
        #expect(groups.map(\.lease) == [.seconds(30), .seconds(150)])
        #expect(groups.map { $0.requests.map(\.queue.kindID) } == [[1, 3], [2]])
    }
}
