// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetService
import JSON
import Logging
import TestSupport
import Testing
import WidgetAPI
import WidgetModel

@testable import ProviderTools

@Suite("The page of a preview")
struct PreviewPageTests {
    private static func widget(_ text: String, problem: String? = nil) throws -> PreviewWidget {
        let kind = LintExample.kind {
            $0.displayName = text
            $0.description = text
            $0.placeholder = .string(text)
        }
        let members = JSONObject([(key: text, value: .string(text))])
        let timeline: JSONValue = [
            "policy": "never", "entries": [["date": "2026-06-22T10:00:00Z", "content": .object(members)]],
        ]
        let subject = LintExample.subject(kind)
        let encoded = String(decoding: timeline.encoded, as: UTF8.self)
        let element = try #require(LintExample.answer([(subject, encoded)]).elements.first)
        let parsed = try element.outcome.get()
        var widget = PreviewWidget(kind: kind.definition, subject: subject)
        _ = widget.update(parsed, problem: problem)
        return widget
    }

    private static func page(_ widgets: [PreviewWidget]) -> String {
        server(widgets).page(at: LintExample.now).html.text
    }

    private static func server(_ widgets: [PreviewWidget]) -> PreviewServer {
        PreviewServer(
            widgets, host: "127.0.0.1", port: 0, timeZone: "Europe/Berlin", lead: "For u1.", logger: .ofCommands)
    }

    @Test("Hostile texts of manifests, content and errors are escaped", arguments: HostileTexts.all)
    func hostile(text: String) throws {
        let page = Self.page([try Self.widget(text, problem: text)])
        let plain = Self.page([try Self.widget("plain", problem: "plain")])
        func count(_ part: String, in text: String) -> Int { text.components(separatedBy: part).count }
        for part in ["<", ">", "<script", "\""] { #expect(count(part, in: page) == count(part, in: plain), "\(part)") }
    }

    @Test("A kind without an answer shows that, and a failed one shows its problem beside the last timeline")
    func states() throws {
        let kind = LintExample.kind()
        let empty = PreviewWidget(kind: kind.definition, subject: LintExample.subject(kind))
        #expect(Self.page([empty]).contains("The provider has not answered yet."))
        let failed = Self.page([try Self.widget("shown", problem: "answered with status 500")])
        #expect(failed.contains("answered with status 500") && failed.contains("<dt>shown</dt>"))
        #expect(failed.contains("data-live=\"/events?version=0\""))
    }

    @Test("Only visible changes count and wake waiting requests")
    func changes() async throws {
        let widget = try Self.widget("one")
        let state = Self.server([widget])
        #expect(state.current.version == 0)
        state.update(0, widget.timeline, problem: nil)
        #expect(state.current.version == 0)
        async let news = state.version(otherThan: 0)
        state.update(0, nil, problem: "answered with status 500")
        #expect(try await news == 1)
        #expect(state.current.widgets[0].timeline == widget.timeline && state.current.widgets[0].version == 2)
        async let end = state.version(otherThan: 1)
        state.close()
        #expect(try await end == nil)
    }
}
