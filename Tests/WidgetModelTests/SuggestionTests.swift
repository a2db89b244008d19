// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite("Suggestions", .timeLimit(.patience))
struct SuggestionTests {
    @Test(arguments: [
        ("maxbatch", "maxBatch"), ("maxBacth", "maxBatch"), ("famlies", "families"), ("time", nil), ("x", nil),
        ("timeouts", "timeout"), ("", nil),
    ])
    func suggests(name: String, expected: String?) {
        #expect(name.closest(among: ["maxBatch", "families", "timeout"]) == expected)
    }
}
