// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import FreshetClient

@Suite(.timeLimit(.patience))
struct AdmissionTests {
    @Test(
        "A call's events are admitted together or not at all; a call beyond the limit is admitted alone",
        arguments: [
            (count: 8, underWay: 0, isAdmitted: true), (3, 8, false), (2, 8, true), (1, 10, false), (9, 2, false),
            (8, 2, true), (50, 0, true), (1, 50, false), (.max, 20, false),
        ])
    func admission(count: Int, underWay: Int, isAdmitted: Bool) {
        #expect(WidgetCenter.hasRoom(for: count, besides: underWay, limit: 10) == isAdmitted)
    }
}
