import HTTPTypes
import Hummingbird

/// Permission that a route requires in addition to a valid token for the app.
struct APIAccess: Hashable, Sendable {
    /// Required scope.
    let scope: TokenScope
    /// Whether the route serves a whole app and therefore rejects tokens of a single user.
    let isAppWide: Bool

    /// Access for device tokens too, which the route limits to their user.
    static func own(_ scope: TokenScope) -> APIAccess { APIAccess(scope: scope, isAppWide: false) }

    static func app(_ scope: TokenScope) -> APIAccess { APIAccess(scope: scope, isAppWide: true) }
}

/// A route under `/v1/apps/{app}`. All routes are in the table ``RouteDependencies/routes``, so none is without a permission.
struct APIRoute: Sendable {
    /// Name in `schemas/openapi.yaml` and in the audit log.
    let id: String
    let method: HTTPRequest.Method
    /// Path below `/v1/apps/{app}/`, with parameters in braces.
    let path: String
    let access: APIAccess
    /// Names of the query's parameters.
    let query: [String]
    /// Whether requests are written to the audit log.
    let isAudited: Bool
    let handle: @Sendable (APICall) async throws -> Response

    /// - Parameter isAudited: nil: only if the route changes something.
    init(
        _ id: String, _ method: HTTPRequest.Method, _ path: String, _ access: APIAccess,
        query: [String] = [], isAudited: Bool? = nil, handle: @escaping @Sendable (APICall) async throws -> Response
    ) {
        self.id = id
        self.method = method
        self.path = path
        self.access = access
        self.query = query
        self.isAudited = isAudited ?? (method != .get && ![.widgetsRead, .operateRead].contains(access.scope))
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
