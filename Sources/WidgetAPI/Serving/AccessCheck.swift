// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import Hummingbird
import JSON
import Logging
import WidgetModel

/// Authentication, rate limits and authorisation in front of every operation. Attempted changes are written to the
/// audit log.
struct AccessCheck: Sendable {
    let verifier: TokenVerifier
    let quotas: Quotas
    /// Limit on refused tokens by address; nil for none.
    let failures: RateLimiter<[UInt8]>?
    /// Limit for the arrival of a request's body.
    let receiveTime: Duration
    let logger: Logger

    /// The response of a route to a request.
    func respond(_ route: APIRoute, _ request: Request, _ context: APIContext) async -> Response {
        let path = request.uri.description
        let caller: Caller
        do throws(Problem) {
            caller = try await authenticate(request.headers[.authorization], context)
        } catch {
            if route.operation.isAudited { audit(nil, route.id, path: path, error.status, context) }
            return error.response
        }
        var response: Response
        do throws(Problem) {
            response = try await run(route.operation, for: caller, path: path, context, outcome: \.status) {
                // Another tenant's app is not found.
                guard let app = context.parameters.get("app")?.removingPercentEncoding, Text.equal(app, caller.app)
                else { throw Problem.notFound }
                var call = APICall(request: request, context: context, caller: caller)
                try call.readQuery(allowing: route.query)
                return try await route.handle(call)
            }
        } catch {
            response = error.response
        }
        response.headers.append(contentsOf: quotas.headers(for: caller.principal))
        return response
    }

    /// Runs an operation for a caller who may use it, within the caller's quota.
    ///
    /// - Parameters:
    ///   - path: of the request, for the audit log.
    ///   - outcome: status of a value.
    func run<Value>(
        _ operation: Operation, for caller: Caller, path: String, _ context: APIContext,
        outcome: (Value) -> HTTPResponse.Status, _ body: () async throws -> Value
    ) async throws(Problem) -> Value {
        let principal = caller.principal
        do {
            try quotas.take(.requests, for: principal)
            guard principal.has(operation.access.scope) else {
                throw Problem.insufficientScope(operation.access.scope)
            }
            guard !operation.access.isAppWide || principal.user == nil else {
                throw Problem.forbidden("a token of one user is not allowed to do this for the whole app")
            }
            let value = try await body()
            if operation.isAudited { audit(principal, operation.id, path: path, outcome(value), context) }
            return value
        } catch {
            let problem = Problem(answering: error, path: path, context.logger)
            if operation.isAudited { audit(principal, operation.id, path: path, problem.status, context) }
            throw problem
        }
    }

    /// Verifies the token. After too many refused tokens from the address, only remembered tokens are accepted.
    private func authenticate(_ header: String?, _ context: APIContext) async throws(Problem) -> Caller {
        do {
            let token = try TokenVerifier.token(in: header)
            if let known = try verifier.known(token: token) {
                return Caller(principal: known, token: token, check: self)
            }
            if let failures, let peer = context.peer, let wait = failures.state(peer).wait {
                throw Problem.tooManyFailures(wait)
            }
            return Caller(principal: try await verifier.principal(token: token), token: token, check: self)
        } catch let problem as Problem {
            throw problem
        } catch {
            let refusal = error as? TokenRefusal ?? .malformed
            // A missing token is not counted as a failure.
            guard refusal != .missing, let failures, let peer = context.peer else { throw .unauthorized(refusal) }
            throw failures.take(peer).map { .tooManyFailures($0) } ?? .unauthorized(refusal)
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
