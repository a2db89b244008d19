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

    /// Sends 100 Continue to a client that waits for it.
    func wantBody() {
        channel.triggerUserOutboundEvent(HTTPRules.BodyWanted(), promise: nil)
    }

    /// Address of the client or its proxy; nil if it is no network address.
    var peer: Peer? { channel.remoteAddress.flatMap(Peer.init) }
}

/// Gives every request an id for its response and log messages: the caller's `X-Request-Id` if it is valid, else a new
/// one.
struct RequestIDMiddleware: RouterMiddleware {
    func handle(
        _ request: Request, context: APIContext, next: @concurrent (Request, APIContext) async throws -> Response
    ) async throws -> Response {
        let id = request.headers[.requestID].flatMap { RequestID.isSane($0) ? $0 : nil } ?? RandomID.make()
        var context = context
        context.logger[metadataKey: requestIDKey] = .string(id)
        var response = try await next(request, context)
        response.headers[.requestID] = id
        return response
    }
}

enum RequestID {
    /// Up to 128 letters, digits, dots, underscores and hyphens.
    static func isSane(_ text: String) -> Bool {
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
}

/// Metadata key of the id in a request's logger.
private let requestIDKey = "request"

extension RequestContext {
    /// The id from ``RequestIDMiddleware``.
    var requestID: String { logger[metadataKey: requestIDKey].map { "\($0)" } ?? RandomID.make() }
}

extension HTTPField.Name {
    static let requestID = Self("X-Request-Id")!
    static let freshetStale = Self("Freshet-Stale")!
    static let freshetRevision = Self("Freshet-Revision")!
}
