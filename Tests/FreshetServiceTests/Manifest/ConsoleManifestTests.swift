// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

@Suite(.timeLimit(.patience))
struct ConsoleManifestTests {
    @Test(
        "A manifest with anchors is refused before it is parsed, since aliases multiply",
        arguments: ["a: &a [x]\n? *a\n: 1", "- &a [[[*a]]]", "apps: {x: &b 1}", "&c\n"])
    func anchors(text: String) {
        let problem = #expect(throws: ModelError.self) { try Manifest.definitions(of: text) }
        #expect(problem?.message.contains("anchors") == true)
    }

    @Test("An ampersand in a text is no anchor")
    func ampersand() {
        let problem = #expect(throws: ManifestError.self) { try Manifest.definitions(of: "apps: Bonnie&Clyde") }
        #expect(problem?.description.contains("anchors") == false)
    }
}
