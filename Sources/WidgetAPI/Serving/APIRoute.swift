// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird

/// Permission that an operation requires in addition to a valid token for the app.
struct APIAccess: Hashable, Sendable {
    let scope: TokenScope
    /// Whether tokens of a single user are refused. Otherwise the operation limits them to their user.
    let isAppWide: Bool

    static func own(_ scope: TokenScope) -> APIAccess { APIAccess(scope: scope, isAppWide: false) }

    static func app(_ scope: TokenScope) -> APIAccess { APIAccess(scope: scope, isAppWide: true) }
}

/// Something that a route or a page of the console does for a caller with permission.
struct Operation: Sendable {
    /// Name in the audit log, and in `schemas/openapi.yaml` if it is a route's.
    let id: String
    let access: APIAccess
    let isAudited: Bool
}

/// A route under `/v1/apps/{app}`. All routes are in the table ``Routes/table``, so none is without a permission.
struct APIRoute: Sendable {
    let operation: Operation
    let method: HTTPRequest.Method
    /// Path below `/v1/apps/{app}/`, with parameters in braces.
    let path: String
    /// Names of the query's parameters.
    let query: [String]
    /// Reads the input from a request, calls the route's function, and encodes its result.
    let handle: @Sendable (APICall) async throws -> Response

    init(
        _ id: String, _ method: HTTPRequest.Method, _ path: String, _ access: APIAccess,
        query: [String] = [], handle: @escaping @Sendable (APICall) async throws -> Response
    ) {
        // Only changes are audited.
        let isAudited = method != .get && ![.widgetsRead, .operateRead].contains(access.scope)
        operation = Operation(id: id, access: access, isAudited: isAudited)
        self.method = method
        self.path = path
        self.query = query
        self.handle = handle
    }

    /// Route that publishes a change of widgets or of what belongs to a user. The caller can wait for its outcome.
    static func change(
        _ id: String, _ method: HTTPRequest.Method, _ path: String,
        handle: @escaping @Sendable (APICall) async throws -> Response
    ) -> APIRoute {
        APIRoute(id, method, path, .own(.widgetsWrite), query: ["wait"], handle: handle)
    }

    static let prefix = "/v1/apps/{app}/"

    var id: String { operation.id }

    /// Path as in `schemas/openapi.yaml`.
    var template: String { Self.prefix + path }

    var parameterCount: Int { template.count { $0 == "{" } }

    /// Whether a request's path matches the route.
    func matches(_ requested: String) -> Bool {
        let parts = requested.split(separator: "/", omittingEmptySubsequences: true)
        let expected = template.split(separator: "/", omittingEmptySubsequences: true)
        return parts.count == expected.count
            && zip(parts, expected).allSatisfy { part, expected in
                expected.utf8.first == UInt8(ascii: "{") || part.utf8.elementsEqual(expected.utf8)
            }
    }
}

extension [APIRoute] {
    func add(to router: Router<APIContext>, behind check: AccessCheck) {
        for route in self {
            let path = RouterPath(route.template)
            guard route.method != .get else {
                router.onGet(path) { request, context in await check.respond(route, request, context) }
                continue
            }
            router.on(path, method: route.method) { request, context in
                await check.respond(route, request, context)
            }
        }
    }

    /// Methods of the routes at a request's path. As in the router, literal segments have precedence over parameters.
    func methods(at path: String) -> [String] {
        let matching = filter { $0.matches(path) }
        let fewest = matching.map(\.parameterCount).min()
        return matching.filter { $0.parameterCount == fewest }
            .flatMap { $0.method == .get ? ["GET", "HEAD"] : [$0.method.rawValue] }.sorted()
    }
}

extension Router<APIContext> {
    /// Adds a route of `GET` and `HEAD`.
    func onGet(_ path: RouterPath, use handler: @escaping @Sendable (Request, APIContext) async throws -> Response) {
        on(path, method: .get, use: handler)
        on(path, method: .head) { request, context in try await handler(request, context).forHead }
    }
}

extension Response {
    /// The response to `HEAD` in place of this response to `GET`. A stream is not begun.
    var forHead: Response {
        guard body.contentLength == nil else { return self }
        return Response(status: status, headers: headers, body: ResponseBody { try await $0.finish(nil) })
    }
}
