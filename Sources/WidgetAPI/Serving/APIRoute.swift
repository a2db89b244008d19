import HTTPTypes
import Hummingbird

/// Who may use a route, besides that the token must be valid and of the app in the path.
struct APIAccess: Hashable, Sendable {
    /// What the token must let its bearer do.
    let scope: TokenScope
    /// Whether it concerns all of the app, so that a token of one user cannot be for it.
    let isAppWide: Bool

    /// Also for device tokens, as far as it concerns their user: the route sees to that.
    static func own(_ scope: TokenScope) -> APIAccess { APIAccess(scope: scope, isAppWide: false) }

    static func app(_ scope: TokenScope) -> APIAccess { APIAccess(scope: scope, isAppWide: true) }
}

/// One route under `/v1/apps/{app}`. Every route is in the table of ``APIRoutes``; there is no other way to add one, so
/// none is without a rule.
struct APIRoute: Sendable {
    /// Its name in `schemas/openapi.yaml` and in the audit log.
    let id: String
    let method: HTTPRequest.Method
    /// Below `/v1/apps/{app}/`, with the names of parameters in braces.
    let path: String
    let access: APIAccess
    let handle: @Sendable (APICall) async throws -> Response

    init(
        _ id: String, _ method: HTTPRequest.Method, _ path: String, _ access: APIAccess,
        handle: @escaping @Sendable (APICall) async throws -> Response
    ) {
        self.id = id
        self.method = method
        self.path = path
        self.access = access
        self.handle = handle
    }

    static let prefix = "/v1/apps/{app}/"

    /// As the document has it.
    var template: String { Self.prefix + path }

    /// Whether it changes something, which is written into the audit log.
    var isWrite: Bool { method != .get }

    /// Whether a path of a request is one of this route.
    func matches(_ requested: String) -> Bool {
        let parts = requested.split(separator: "/", omittingEmptySubsequences: true)
        let expected = template.split(separator: "/", omittingEmptySubsequences: true)
        return parts.count == expected.count
            && zip(parts, expected).allSatisfy { part, expected in
                expected.utf8.first == UInt8(ascii: "{") || part.utf8.elementsEqual(expected.utf8)
            }
    }
}
