import HTTPTypes
import Hummingbird

/// Lets pages of the configured origins call the API (CORS). Browser credentials are not allowed; callers send a token.
struct CORSMiddleware<Context: RequestContext>: RouterMiddleware {
    let origins: Set<String>

    private static var methods: String { "GET, PUT, POST, DELETE" }
    private static var requestHeaders: String { "Authorization, Content-Type, If-None-Match, X-Request-Id" }
    private static var exposed: String {
        "ETag, Age, Location, Retry-After, X-Request-Id, Freshet-Stale, Freshet-Revision, Freshet-Position"
    }

    func handle(
        _ request: Request, context: Context, next: @concurrent (Request, Context) async throws -> Response
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
