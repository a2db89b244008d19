// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import WidgetModel

/// The context of a request: Hummingbird's storage and the address of the client.
struct APIContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    private let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        channel = source.channel
    }

    /// Tells the server that the request's body is read, so that a client that waits for 100 Continue sends it.
    func wantBody() {
        channel.triggerUserOutboundEvent(BodyWanted(), promise: nil)
    }

    /// Address of the client or its proxy (``SocketAddress/peer``); nil if it is no network address.
    var peer: [UInt8]? { channel.remoteAddress?.peer }

    /// Metadata key of the request's id in its logger.
    fileprivate static let requestIDKey = "request"

    /// The id for the response and for log messages, from ``APIMiddleware``.
    var requestID: String { logger[metadataKey: Self.requestIDKey].map { "\($0)" } ?? String.randomID() }
}

/// Gives every request an id, lets pages of the configured origins call the API (CORS), and turns errors into problem
/// documents, or pages of the console.
struct APIMiddleware: RouterMiddleware {
    /// Origins of pages. Browser credentials are not allowed; callers send a token.
    var origins: Set<String> = []
    /// Methods of the routes at a path; empty for an unknown path.
    let methods: @Sendable (String) -> [String]
    /// A page that shows a problem to a person; nil for requests whose problems are documents.
    var page: @Sendable (Problem, Request, APIContext) async -> Response? = { _, _, _ in nil }
    let logger: Logger

    private static let corsMethods = "GET, PUT, POST, DELETE"
    private static let corsHeaders = "Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Request-Id"
    private static let corsExposed =
        "ETag, Age, Location, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Freshet-Stale, Freshet-Revision, "
        + "Freshet-Position"

    func handle(
        _ request: Request, context: APIContext, next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        let id = request.headers[.requestID].flatMap { Self.isSane(requestID: $0) ? $0 : nil } ?? String.randomID()
        var context = context
        context.logger[metadataKey: APIContext.requestIDKey] = .string(id)
        let origin = origins.isEmpty ? nil : request.headers[.origin]
        let isPreflight =
            origin != nil && request.method == .options && request.headers[.accessControlRequestMethod] != nil
        var response: Response
        do {
            let path = request.uri.path
            guard isPreflight || (path == "/" || !path.hasSuffix("/")) && !path.contains("//") else {
                throw Problem.emptySegment(path)
            }
            response = isPreflight ? Response(status: .noContent) : try await next(request, context)
        } catch {
            let path = request.uri.path
            let problem =
                (error as? HTTPError).map { self.problem($0, path) } ?? Problem(answering: error, path: path, logger)
            response = await page(problem, request, context) ?? problem.response
        }
        response.headers[.requestID] = id
        if let origin { allow(origin, isPreflight: isPreflight, in: &response.headers) }
        return response
    }

    /// Whether a caller's id has up to 128 letters, digits, dots, underscores and hyphens.
    static func isSane(requestID text: String) -> Bool {
        (1...128).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                    true
                default: false
                }
            }
    }

    private func allow(_ origin: String, isPreflight: Bool, in headers: inout HTTPFields) {
        headers.append(HTTPField(name: .vary, value: "Origin"))
        guard origins.contains(origin) else { return }
        headers[.accessControlAllowOrigin] = origin
        guard isPreflight else {
            headers[.accessControlExposeHeaders] = Self.corsExposed
            return
        }
        headers[.accessControlAllowMethods] = Self.corsMethods
        headers[.accessControlAllowHeaders] = Self.corsHeaders
        headers[.accessControlMaxAge] = "600"
    }

    private func problem(_ error: HTTPError, _ path: String) -> Problem {
        guard error.status == .notFound else { return Problem(error.status, error.status.reasonPhrase) }
        let allowed = methods(path)
        return allowed.isEmpty ? .noRoute(path) : .methodNotAllowed(allowed)
    }
}

extension HTTPField.Name {
    static let requestID = Self("X-Request-Id")!
    static let freshetStale = Self("Freshet-Stale")!
    static let freshetRevision = Self("Freshet-Revision")!
}
