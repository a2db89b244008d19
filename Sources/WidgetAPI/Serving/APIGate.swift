import Foundation
import HTTPTypes
import Hummingbird
import JSON
import Logging
import WidgetModel

/// Authentication, rate limits and authorisation in front of every route. Attempted changes are written to the audit
/// log.
struct APIGate: Sendable {
    let verifier: TokenVerifier
    let quotas: Quotas
    /// Limit on refused tokens by address; nil for none.
    let failures: RateLimiter<Peer>?
    /// Limit for the arrival of a request's body.
    let receiveTime: Duration
    let logger: Logger

    func respond(_ route: APIRoute, _ request: Request, _ context: APIContext) async -> Response {
        let response: Response
        do throws(Problem) {
            let bearer = try await authenticate(request.headers[.authorization], context)
            return await respond(route, request, context, to: bearer, context.parameters)
        } catch {
            response = error.response
        }
        if route.isAudited { audit(nil, route.id, path: request.uri.description, response.status, context) }
        return response
    }

    /// The response to the bearer of a verified token.
    ///
    /// - Parameter parameters: parameters of the route's path, percent-encoded.
    func respond(
        _ route: APIRoute, _ request: Request, _ context: APIContext, to bearer: Principal, _ parameters: Parameters
    ) async -> Response {
        var response: Response
        do {
            try quotas.take(.requests, for: bearer)
            try check(bearer, route, parameters)
            let call = try APICall(
                request: request, principal: bearer, context: context, gate: self, parameters: parameters,
                query: APICall.query(request.uri.query ?? ""))
            try call.allowQuery(route.query)
            response = try await route.handle(call)
        } catch {
            response = ProblemMiddleware.problem(error, request, context.logger).response
        }
        response.headers.append(contentsOf: quotas.headers(for: bearer))
        if route.isAudited { audit(bearer, route.id, path: request.uri.description, response.status, context) }
        return response
    }

    /// Verifies the token. After too many refused tokens from the address, only remembered tokens are accepted.
    func authenticate(_ header: String?, _ context: APIContext) async throws(Problem) -> Principal {
        do throws(TokenRefusal) {
            if let known = try verifier.known(authorization: header) { return known }
        } catch {
            throw refused(error, context)
        }
        if let failures, let peer = context.peer, let wait = failures.state(peer).wait { throw .tooManyFailures(wait) }
        do throws(TokenRefusal) {
            return try await verifier.principal(authorization: header)
        } catch {
            throw refused(error, context)
        }
    }

    /// The response to a refused token. A missing token is not counted as a failure.
    private func refused(_ refusal: TokenRefusal, _ context: APIContext) -> Problem {
        guard refusal != .missing, let failures, let peer = context.peer else { return .unauthorized(refusal) }
        return failures.take(peer).map { .tooManyFailures($0) } ?? .unauthorized(refusal)
    }

    /// Checks app, scope and user. Another tenant's app is not found.
    private func check(_ principal: Principal, _ route: APIRoute, _ parameters: Parameters) throws(Problem) {
        guard let app = parameters.get("app")?.removingPercentEncoding, Text.equal(app, principal.app)
        else { throw .notFound }
        guard principal.has(route.access.scope) else { throw .insufficientScope(route.access.scope) }
        guard !route.access.isAppWide || principal.user == nil else {
            throw .forbidden("a token of one user is not allowed to do this for the whole app")
        }
    }

    /// Logs bearer, action and outcome, never the token.
    func audit(
        _ principal: Principal?, _ what: String, path: String, _ outcome: HTTPResponse.Status, _ context: APIContext
    ) {
        logger.notice(
            "audit",
            metadata: [
                "who": "\(principal?.name ?? "nobody")", "app": "\(principal?.app ?? "-")",
                "user": "\(principal?.user ?? "-")", "what": "\(what)",
                "path": "\(Text.printable(path, maximum: 512))", "outcome": "\(outcome.code)",
                "request": "\(context.requestID)",
            ])
    }
}
