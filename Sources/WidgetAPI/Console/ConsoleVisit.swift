// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import JSON
import Mustache
import NIOCore
import Synchronization
import WidgetModel
import WidgetStore

/// A request of a signed-in operator.
struct ConsoleVisit: Sendable {
    let console: Console
    let session: ConsoleSession
    /// The request, with the fields of its form in place of the query. Empty ones are left out.
    var call: APICall
    /// State of the installation when the page was requested.
    let state: InstallationState

    var app: String { call.app }
    var path: String { call.request.uri.path }

    // MARK: Operations

    /// Whether the bearer may run an operation.
    func mayRun(_ id: String) -> Bool {
        console.operations[id].map { call.caller.principal.has($0.access.scope) } ?? false
    }

    /// Runs an operation as the bearer, with the checks, quotas and the audit log of the API.
    ///
    /// - Parameter outcome: status of success, for the audit log.
    @discardableResult
    func run<Value>(
        _ id: String, _ outcome: HTTPResponse.Status = .ok,
        _ body: (_ routes: Routes, _ caller: Caller) async throws -> Value
    ) async throws(Problem) -> Value {
        guard let operation = console.operations[id] else { throw .internal }
        let run = { try await body(console.routes, call.caller) }
        return try await console.check.run(
            operation, for: call.caller, path: path, call.context, outcome: { _ in outcome }, run)
    }

    /// Runs an operation, and returns nil if it finds nothing.
    func find<Value>(
        _ id: String, _ body: (_ routes: Routes, _ caller: Caller) async throws -> Value
    ) async throws(Problem) -> Value? {
        do throws(Problem) {
            return try await run(id, .ok, body)
        } catch {
            guard error.status == .notFound else { throw error }
            return nil
        }
    }

    func audit(_ what: String, _ outcome: HTTPResponse.Status) {
        console.check.audit(call.caller.principal, what, path: path, outcome, call.context)
    }

    // MARK: Pages

    private static let links = [
        ("Overview", ""), ("Kinds", "/kinds"), ("Widgets", "/widgets"), ("Dead letters", "/dead-letters"),
        ("Providers", "/providers"), ("Simulator", "/simulator"),
    ]

    /// A page of a template, with the names and rights that every template may use.
    func page(_ template: String, title: String, _ view: [String: Any]) -> ConsolePage {
        let principal = call.caller.principal
        let shared: [String: Any] = [
            "base": Console.base, "csrf": console.configuration.key.formToken(of: session.id), "app": app,
            "who": principal.operatorName, "role": principal.has(.operate) ? "operator" : "viewer",
            "mayOperate": principal.has(.operate), "mayReload": principal.has(.reload) && principal.has(.operate),
            "mayTest": mayRun("testProvider"), "path": path,
        ]
        // Empty text hides a section, as in JSON.
        let view = shared.merging(view) { $1 }.mapValues { value in
            switch value {
            case let text as String: ConsolePage.value(.string(text))
            case let json as JSONValue: ConsolePage.value(json)
            default: value
            }
        }
        var page = ConsolePage(title: title, base: Console.base, body: ConsolePage.render(template, view))
        let current = path.dropFirst(Console.base.count)
        page.links = Self.links.map { name, path in
            (
                title: name, path: Console.base + path,
                isCurrent: path.isEmpty ? current.isEmpty : current == path || current.hasPrefix(path + "/")
            )
        }
        page.aside = ConsolePage.render("who", view)
        if !state.obstacles.isEmpty {
            let obstacles = state.obstacles.map { process, obstacle in
                [
                    "process": process, "name": obstacle.name, "reason": ConsolePage.value(.string(obstacle.reason)),
                ] as [String: Any]
            }
            let isSlow = state.obstacles.allSatisfy(\.obstacle.isSlow)
            page.banner = ConsolePage.render(
                "banner",
                [
                    "obstacles": obstacles, "style": isSlow ? "warn" : "bad",
                    "title": isSlow ? "Everything works, but not all of it fast" : "Not everything works",
                ])
        }
        page.scripts = ["console.js"]
        return page
    }
}

/// JSON as values for templates. An object's members, an array's elements and texts are what the template names; null
/// and empty text hide a section.
extension ConsolePage {
    static func value(_ json: JSONValue) -> Any {
        switch json {
        case .null: return "" as HTML
        case .bool(let value): return value
        case .number(let number): return Words(text: grouped(number.text))
        case .string(let text): return Words(text: text)
        case .array(let elements): return elements.map(value)
        case .object(let object): return members(object)
        }
    }

    static func members(_ object: JSONObject) -> [String: Any] {
        Dictionary(object.members.map { ($0.key, value($0.value)) }) { $1 }
    }

    /// A whole number of five digits or more, with spaces between its thousands.
    static func grouped(_ number: String) -> String {
        guard number.utf8.count > 4, number.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return number }
        var result = ""
        for (index, digit) in number.enumerated() {
            if index > 0, (number.count - index).isMultiple(of: 3) { result += "\u{202F}" }
            result.append(digit)
        }
        return result
    }

    /// A number with two or three digits that count.
    static func words(_ value: Double) -> String {
        switch abs(value) {
        case 0: "0"
        case ..<1: "\((value * 1_000).rounded() / 1_000)"
        case ..<100: JSONNumber((value * 10).rounded() / 10)?.text ?? "0"
        default: grouped("\(Int(value.rounded()))")
        }
    }

    /// Text with the transforms of templates: `{{path(x)}}` is percent-encoded for a link, `{{{time(x)}}}` is a time, or
    /// a sentence with times, of which each is relative to the present, `{{duration(x)}}` has a unit.
    private struct Words: MustacheCustomRenderable, MustacheTransformable {
        let text: String

        var renderText: String { text }
        var isNull: Bool { text.isEmpty }

        func transform(_ name: String) -> Any? {
            switch name {
            case "path": Text.percentEncoded(text)
            case "time": HTML.times(in: text, from: .now())
            // Durations in JSON are seconds, or text with a unit.
            case "duration": text.last?.isNumber == true ? "\(text) s" : text
            default: nil
            }
        }
    }
}
