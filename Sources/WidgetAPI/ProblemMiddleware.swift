import HTTPTypes
import Hummingbird
import Logging
import PostgresClient

/// Turns every error of a route into a problem document. What is not the caller's fault is logged, and its text stays
/// in the log.
struct ProblemMiddleware<Context: RequestContext>: RouterMiddleware {
    let logger: Logger

    func handle(
        _ request: Request, context: Context, next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let problem as Problem {
            return problem.response
        } catch let error as HTTPError {
            return Self.problem(error, path: request.uri.path).response
        } catch let error as PostgresError where error.isRetriable {
            logger.warning("the API cannot read the database", metadata: ["error": "\(error)"])
            return Problem.unavailable.response
        } catch {
            logger.error("an API request failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            return Problem.internal.response
        }
    }

    private static func problem(_ error: HTTPError, path: String) -> Problem {
        switch error.status {
        case .notFound: .notFound("there is nothing at \(path)")
        case .methodNotAllowed:
            Problem(
                status: .methodNotAllowed, name: "method-not-allowed", title: "Method not allowed",
                detail: "\(path) does not take this method")
        default: Problem(status: error.status, name: "http", title: error.status.reasonPhrase, detail: path)
        }
    }
}

/// Lets pass who presents the token.
struct BearerMiddleware<Context: RequestContext>: RouterMiddleware {
    let token: BearerToken

    func handle(
        _ request: Request, context: Context, next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard let header = request.headers[.authorization], token.admits(authorization: header) else {
            throw Problem.unauthorized
        }
        return try await next(request, context)
    }
}
