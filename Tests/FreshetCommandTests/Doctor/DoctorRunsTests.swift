// SPDX-License-Identifier: Apache-2.0

import JSON
import Synchronization
import TestSupport
import Testing
import WidgetModel

@testable import freshet

@Suite(.timeLimit(.patience))
struct DoctorRunsTests {
    @Test("Concurrent requests of an app share one run; runs of two apps follow one another")
    func shared() async {
        let state = Mutex((runs: [String](), running: 0, most: 0))
        let doctor = DoctorRuns { app in
            state.withLock { state in
                state.runs.append(app)
                state.running += 1
                state.most = max(state.most, state.running)
            }
            await Task.yield()
            state.withLock { $0.running -= 1 }
            return [.string(app)]
        }
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<40 {
                let app = index % 2 == 0 ? "a" : "b"
                group.addTask { #expect(await doctor.findings(of: app) == [.string(app)]) }
            }
        }
        let (runs, most) = state.withLock { ($0.runs.sorted(), $0.most) }
        #expect(runs == ["a", "b"])
        #expect(most == 1)
    }
}
