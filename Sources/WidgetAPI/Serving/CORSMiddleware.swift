import HTTPTypes
import Hummingbird

/// Lets pages of the configured origins call the API (CORS). Browser credentials are not allowed; callers send a token.
struct CORSMiddleware: RouterMiddleware {
    let origins: Set<String>

    private static let methods = "GET, PUT, POST, DELETE"
    private static let requestHeaders = "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Request-Id"
    private static let exposed =
        "ETag, Age, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Freshet-Stale, Freshet-Revision, "
        + "Freshet-Position"

    func handle(
        _ request: Request, context: APIContext, next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        guard let origin = request.headers[.origin] else { return try await next(request, context) }
        let isAllowed = origins.contains(origin)
        if request.method == .options, request.headers[.accessControlRequestMethod] != nil {
            var headers: HTTPFields = [.vary: "Origin"]
            if isAllowed {
                headers[.accessControlAllowOrigin] = origin
                headers[.accessControlAllowMethods] = Self.methods
                headers[.accessControlAllowHeaders] = Self.requestHeaders
                headers[.accessControlMaxAge] = "600"
            }
            return Response(status: .noContent, headers: headers)
        }
        var response = try await next(request, context)
        response.headers.append(HTTPField(name: .vary, value: "Origin"))
        if isAllowed {
            response.headers[.accessControlAllowOrigin] = origin
            response.headers[.accessControlExposeHeaders] = Self.exposed
        }
        return response
    }
}
