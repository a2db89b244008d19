// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing

@Suite("Texts are compared by their bytes")
struct TextTests {
    @Test(
        "Canonically equivalent texts differ",
        arguments: [("K", "\u{212A}"), ("\u{212A}", "K"), (";", "\u{37E}"), ("\u{E9}", "e\u{301}")])
    func equivalent(left: String, right: String) {
        #expect(left == right && !Text.equal(left, right))
        #expect(Text.equal(left, left) && Text.equal(right, right))
    }
}
