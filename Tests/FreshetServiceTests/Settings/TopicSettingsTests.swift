// SPDX-License-Identifier: Apache-2.0

import Testing
import WidgetEvents

@testable import FreshetService

/// Additional topics for producers, and the apps that they accept.
struct TopicSettingsTests {
    private func problems(_ flags: [String: String]) -> [String] {
        LoadedSettings(flags: flags, environment: [:]).problems.map(\.description)
    }

    @Test("Additional topics are input topics in the order of their names, each with its apps")
    func more() throws {
        let settings = try LoadedSettings(
            flags: [
                "topics.more": "z.widgets=widgets,bank.pushes=pushes",
                "topics.allowedApps": "bank.pushes=com.example.bank|com.example.shop",
            ], environment: [:]
        ).checked().settings
        #expect(settings.topics.inputs.suffix(2) == ["bank.pushes", "z.widgets"])
        #expect(settings.topics.inputSorts == [.pushes, .appChanges, .widgets, .donations, .pushes, .widgets])
        #expect(settings.topics.all.contains("bank.pushes") && settings.topics.embedded.contains("z.widgets"))
        #expect(settings.topics.allowedApps == ["bank.pushes": "com.example.bank|com.example.shop"])
    }

    @Test("Invalid topic settings are reported")
    func problems() {
        for flags in [
            ["topics.more": "a=timelines"], ["topics.more": "a"], ["topics.more": "a b=pushes"],
            ["topics.more": "freshet.timelines=pushes"], ["topics.more": "freshet.pushes=pushes"],
            ["topics.allowedApps": "other=a"], ["topics.allowedApps": "freshet.pushes="],
            ["topics.allowedApps": "freshet.pushes=a||b"],
        ] {
            let found = problems(flags)
            #expect(found.count == 1 && found[0].contains("topics."), "\(flags): \(found)")
        }
    }
}
