// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import freshet_load

@Suite("Synthetic populations", .timeLimit(.patience))
struct LoadPopulationTests {
    @Test("Content is canonical JSON of the requested size", arguments: [0, 200, 650, 5_000])
    func content(bytes: Int) throws {
        let text = LoadFill.content(123_456, bytes: bytes)
        #expect(text.utf8.count >= bytes && text.utf8.count < bytes + 20 || bytes == 0)
        let value = try JSONValue.parse(Array(text.utf8))
        #expect(String(decoding: value.encoded, as: UTF8.self) == text)
        #expect(LoadFill.content(1, bytes: 650) != LoadFill.content(2, bytes: 650))
    }
}
