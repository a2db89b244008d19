import Foundation
import HTTPTypes
import Hummingbird
import JSON
import NIOCore
import Synchronization
import WidgetModel

/// A request of a signed-in operator.
struct ConsoleVisit: Sendable {
    let console: Console
    let session: ConsoleSession
    /// The request, with the fields of its form in place of the query. Empty ones are left out.
    var call: APICall

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
        return try await console.gate.run(
            operation, for: call.caller, path: path, call.context, outcome: { _ in outcome }
        ) { try await body(console.routes, call.caller) }
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
        console.gate.audit(call.caller.principal, what, path: path, outcome, call.context)
    }

    // MARK: Pages

    private static let links = [
        ("Overview", ""), ("Kinds", "/kinds"), ("Widgets", "/widgets"), ("Dead letters", "/dead-letters"),
        ("Providers", "/providers"), ("Simulator", "/simulator"),
    ]

    /// A page of a template, with the names and rights that every template may use.
    func page(_ template: String, _ title: String, _ view: [String: Any]) -> ConsolePage {
        let principal = call.caller.principal
        let shared: [String: Any] = [
            "base": Console.base, "csrf": console.configuration.key.formToken(of: session.id), "app": app,
            "who": principal.subject ?? principal.name, "role": principal.has(.operate) ? "operator" : "viewer",
            "mayOperate": principal.has(.operate), "mayReload": principal.has(.reload) && principal.has(.operate),
            "mayTest": mayRun("testProvider"), "path": path,
        ]
        // Empty text hides a section, as in JSON.
        let view = shared.merging(view) { $1 }.mapValues { value in
            switch value {
            case let text as String: ConsoleView.value(.string(text))
            case let json as JSONValue: ConsoleView.value(json)
            default: value
            }
        }
        var page = ConsolePage(title: title, base: Console.base, body: ConsoleTemplates.render(template, view))
        let current = path.dropFirst(Console.base.count)
        page.links = Self.links.map { name, path in
            (
                title: name, path: Console.base + path,
                isCurrent: path.isEmpty ? current.isEmpty : current == path || current.hasPrefix(path + "/")
            )
        }
        page.aside = ConsoleTemplates.render("who", view)
        page.scripts = ["console.js"]
        return page
    }
}
