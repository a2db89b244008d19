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
    let request: Request
    let context: APIContext
    let session: ConsoleSession
    let principal: Principal

    var app: String { principal.app }

    // MARK: Calls

    /// Whether the bearer may use a route.
    func mayCall(_ id: String) -> Bool { console.routes[id].map { principal.has($0.access.scope) } ?? false }

    /// Calls a route of the API as the bearer, and returns its response.
    func respond(
        _ id: String, _ path: [String: String] = [:], query: [String: String?] = [:], body: JSONValue? = nil,
        headers: HTTPFields = [:]
    ) async throws(Problem) -> Response {
        guard let route = console.routes[id] else { throw .internal }
        var target = route.template
        var parameters = Parameters()
        for (name, value) in path.merging(["app": app], uniquingKeysWith: { $1 }) {
            let encoded = Text.percentEncoded(value)
            target = target.replacing("{\(name)}", with: encoded)
            parameters[Substring(name)] = Substring(encoded)
        }
        let items = query.compactMap { name, value in
            value.flatMap { $0.isEmpty ? nil : "\(name)=\(Text.percentEncoded($0))" }
        }
        if !items.isEmpty { target += "?" + items.sorted().joined(separator: "&") }
        var fields = headers
        fields[.authorization] = session.token.map { "Bearer \($0)" }
        if body != nil { fields[.contentType] = "application/json" }
        let inner = Request(
            head: HTTPRequest(method: route.method, scheme: nil, authority: nil, path: target, headerFields: fields),
            body: RequestBody(buffer: ByteBuffer(bytes: body?.encoded ?? [])))
        return await console.gate.respond(route, inner, context, to: principal, parameters)
    }

    /// Calls a route of the API as the bearer, and returns its JSON.
    ///
    /// - Throws: ``Problem`` for a response that is none of success.
    func call(
        _ id: String, _ path: [String: String] = [:], query: [String: String?] = [:], body: JSONValue? = nil
    ) async throws(Problem) -> JSONValue {
        let response = try await respond(id, path, query: query, body: body)
        let collected = Collected()
        // The routes that answer with JSON have it in memory.
        try? await response.body.write(collected)
        let json = (try? JSONValue.parse(collected.bytes)) ?? .null
        guard response.status.kind == .successful else {
            throw Problem(
                response.status, json["detail"]?.stringValue ?? response.status.reasonPhrase,
                title: json["title"]?.stringValue)
        }
        return json
    }

    /// Calls a route, and returns nil if it finds nothing.
    func find(_ id: String, _ path: [String: String]) async throws(Problem) -> JSONValue? {
        do throws(Problem) {
            return try await call(id, path)
        } catch {
            guard error.status == .notFound else { throw error }
            return nil
        }
    }

    private final class Collected: ResponseBodyWriter, Sendable {
        private let buffer = Mutex(ByteBuffer())

        var bytes: [UInt8] { buffer.withLock { Array($0.readableBytesView) } }

        func write(_ part: ByteBuffer) async throws { buffer.withLock { _ = $0.writeImmutableBuffer(part) } }
        func finish(_ trailingHeaders: HTTPFields?) async throws {}
    }

    // MARK: The page's own request

    /// A parameter of the page's path, decoded.
    func path(_ name: String) -> String { context.parameters.get(name)?.removingPercentEncoding ?? "" }

    /// A parameter of the page's query; nil for an empty one.
    func query(_ name: String) -> String? {
        (try? APICall.query(request.uri.query ?? ""))?.first { $0.name == name }.flatMap {
            $0.value.isEmpty ? nil : $0.value
        }
    }

    // MARK: Pages

    private static let links = [
        ("Overview", ""), ("Kinds", "/kinds"), ("Widgets", "/widgets"), ("Dead letters", "/dead-letters"),
        ("Providers", "/providers"), ("Simulator", "/simulator"),
    ]

    /// A page of a template, with the names and rights that every template may use.
    func page(_ template: String, _ title: String, _ view: [String: Any]) -> ConsolePage {
        let shared: [String: Any] = [
            "base": Console.base, "csrf": console.configuration.key.formToken(of: session.id), "app": app,
            "who": principal.subject ?? principal.name, "role": principal.has(.operate) ? "operator" : "viewer",
            "mayOperate": principal.has(.operate), "mayReload": principal.has(.reload) && principal.has(.operate),
            "mayTest": mayCall("testProvider"), "path": request.uri.path,
        ]
        // Empty text hides a section, as in JSON.
        let view = shared.merging(view) { $1 }.mapValues { value in
            (value as? String).map { ConsoleView.value(.string($0)) } ?? value
        }
        var page = ConsolePage(title: title, base: Console.base, body: ConsoleTemplates.render(template, view))
        let current = request.uri.path.dropFirst(Console.base.count)
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
