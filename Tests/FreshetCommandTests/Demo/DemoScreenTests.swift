// SPDX-License-Identifier: Apache-2.0

import FreshetService
import Testing
import WidgetModel

@testable import freshet

struct DemoScreenTests {
    @Test("A row of a frame is shorter than the terminal's, so that it takes one row", arguments: [20, 40, 80])
    func frame(_ columns: Int) {
        let long = String(repeating: "content ", count: 30)
        let rows = DemoScreen.frame("placing widgets", [("a sample widget", long), ("due", "3")], columns: columns)
        #expect(rows.count == 3)
        #expect(rows.allSatisfy { $0.count < columns })
        #expect(rows[1].hasSuffix("…"))
    }

    @Test("A text is wrapped between words, below its beginning; a longer word stays whole")
    func wrapped() {
        let lines = DemoScreen.wrapped("one two three four", after: "name  ", columns: 14)
        #expect(lines == ["name  one two", "      three", "      four"])
        let word = String(repeating: "x", count: 20)
        #expect(DemoScreen.wrapped("a \(word)", after: "n ", columns: 10) == ["n a", "  \(word)"])
        #expect(DemoScreen.wrapped("", after: "n ", columns: 10) == ["n "])
    }

    @Test("The worlds of a demo have as many distinct timelines as their widgets show")
    func worlds() throws {
        let text = """
            app: com.example.own
            provider: {url: "http://127.0.0.1:1"}
            kinds:
              - {name: Mine, placeholder: {}}
              - {name: Ours, sharing: shared, placeholder: {}}
            """
        let world = DemoWorld(widgets: 5, manifest: try Manifest.read(text: text, file: "kinds.yaml"))
        #expect(world.users == 3 && world.widgets(of: 2) == 4..<5)
        #expect(world.distinctTimelines == 4)
        #expect((0..<5).map { world.placement($0).kind } == ["Mine", "Ours", "Mine", "Ours", "Mine"])
        #expect(world.placement(4).user == "u2" && world.apps == ["com.example.own"])
        #expect(DemoWorld(widgets: 300).distinctTimelines == 280)
    }
}
