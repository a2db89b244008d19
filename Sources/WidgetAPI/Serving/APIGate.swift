import HTTPTypes
import Hummingbird
import Logging
import WidgetModel

/// Stands before every route: who asks, how often, whether the app is theirs, and whether they may. It writes what is
/// changed, or was tried to be, into the audit log.
struct APIGate: Sendable {
    let verifier: TokenVerifier
    /// Nil: no limit.
    let limiter: RateLimiter?
    let logger: Logger

    func respond(_ route: APIRoute, _ request: Request, _ context: some RequestContext) async -> Response {
        var principal: Principal?
        let response: Response
        do {
            let bearer = try admit(request)
            principal = bearer
            try check(bearer, route, context.parameters)
            let call = try APICall(
                request: request, parameters: context.parameters, principal: bearer,
                requestID: context.requestID, logger: context.logger)
            response = try await route.handle(call)
        } catch {
            response = ProblemMiddleware<BasicRequestContext>.problem(error, request, context.logger).response
        }
        if route.isWrite { audit(route, request, principal, response.status, context.requestID) }
        return response
    }

    private func admit(_ request: Request) throws(Problem) -> Principal {
        let principal: Principal
        do throws(TokenRefusal) {
            principal = try verifier.principal(authorization: request.headers[.authorization])
        } catch {
            throw .unauthorized(error)
        }
        if let wait = limiter?.take(principal.fingerprint) { throw .tooManyRequests(wait) }
        return principal
    }

    /// Another tenant's app is not found, whatever the token may do; what the token may not do is refused before anything
    /// is looked for.
    private func check(_ principal: Principal, _ route: APIRoute, _ parameters: Parameters) throws(Problem) {
        guard let app = parameters.get("app").flatMap({ PercentEncoding.decode($0) }), Text.equal(app, principal.app)
        else { throw .notFound }
        guard principal.has(route.access.scope) else { throw .insufficientScope(route.access.scope) }
        guard !route.access.isAppWide || principal.user == nil else {
            throw .forbidden("a token of one user is not for what concerns all of the app")
        }
    }

    /// Who, what, and what came of it; never the token.
    private func audit(
        _ route: APIRoute, _ request: Request, _ principal: Principal?, _ status: HTTPResponse.Status, _ id: String
    ) {
        logger.notice(
            "audit",
            metadata: [
                "who": "\(principal?.name ?? "nobody")", "app": "\(principal?.app ?? "-")",
                "user": "\(principal?.user ?? "-")", "what": "\(route.id)",
                "path": "\(Text.printable(request.uri.path, maximum: 512))", "outcome": "\(status.code)",
                "request": "\(id)",
            ])
    }
}
