import HTTPTypes
import Hummingbird
import Logging

/// Turns the errors of routes into problem documents. Internal errors are logged and not disclosed.
struct ProblemMiddleware: RouterMiddleware {
    /// Methods of the routes at a path; empty for an unknown path.
    var methods: @Sendable (String) -> [String] = { _ in [] }
    let logger: Logger

    func handle(
        _ request: Request, context: APIContext, next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        let path = request.uri.path
        guard !Self.hasEmptySegment(path) else { return Problem.emptySegment(path).response }
        do {
            return try await next(request, context)
        } catch let error as HTTPError {
            return problem(error, request).response
        } catch {
            return Self.problem(error, request, logger).response
        }
    }

    private static func hasEmptySegment(_ path: String) -> Bool {
        path != "/" && path.hasSuffix("/") || path.contains("//")
    }

    /// The problem for an error of a route; errors of the server are logged.
    static func problem(_ error: any Error, _ request: Request, _ logger: Logger) -> Problem {
        if let problem = Problem(explaining: error) {
            if problem.status.code >= 500 {
                logger.warning("the API cannot answer", metadata: ["error": "\(error)"])
            }
            return problem
        }
        logger.error("an API request failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
        return .internal
    }

    private func problem(_ error: HTTPError, _ request: Request) -> Problem {
        let path = request.uri.path
        switch error.status {
        case .notFound:
            let allowed = methods(path)
            return allowed.isEmpty ? .noRoute(path) : .methodNotAllowed(allowed)
        default:
            return Problem(error.status, error.status.reasonPhrase)
        }
    }
}
