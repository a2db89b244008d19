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
    /// Of tokens that are refused; nil: no limit.
    let failures: FailureLimiter?
    /// How long the body of a request may take to arrive.
    let receiveTime: Duration
    let logger: Logger

    func respond(_ route: APIRoute, _ request: Request, _ context: APIContext) async -> Response {
        var principal: Principal?
        let response: Response
        do {
            let bearer = try admit(request, context)
            principal = bearer
            try check(bearer, route, context.parameters)
            let authorization = request.headers[.authorization]
            let call = try APICall(
                request: request, parameters: context.parameters, principal: bearer,
                requestID: context.requestID, logger: context.logger, receiveTime: receiveTime,
                recheck: { [verifier] () throws(TokenRefusal) in
                    _ = try verifier.principal(authorization: authorization)
                })
            response = try await route.handle(call)
        } catch {
            response = ProblemMiddleware<APIContext>.problem(error, request, context.logger).response
        }
        if route.isWrite { audit(route, request, principal, response.status, context.requestID) }
        return response
    }

    private func admit(_ request: Request, _ context: APIContext) throws(Problem) -> Principal {
        let principal = try authenticate(request.headers[.authorization], context)
        if let wait = limiter?.take(principal.fingerprint) { throw .tooManyRequests(wait) }
        return principal
    }

    /// A token that was verified before is let in whoever else is at the same address; others are not even looked at while
    /// too many from there were refused.
    private func authenticate(_ header: String?, _ context: APIContext) throws(Problem) -> Principal {
        do throws(TokenRefusal) {
            if let known = try verifier.known(authorization: header) { return known }
        } catch {
            throw refused(error, context)
        }
        if let failures, let peer = context.peer, let wait = failures.wait(peer) { throw .tooManyFailures(wait) }
        do throws(TokenRefusal) {
            return try verifier.principal(authorization: header)
        } catch {
            throw refused(error, context)
        }
    }

    /// The answer to a token that is not let in, which is counted. Nothing was tried without one.
    private func refused(_ refusal: TokenRefusal, _ context: APIContext) -> Problem {
        guard refusal != .missing, let failures, let peer = context.peer else { return .unauthorized(refusal) }
        if let wait = failures.wait(peer) { return .tooManyFailures(wait) }
        failures.failed(peer)
        return .unauthorized(refusal)
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
