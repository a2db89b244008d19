import HTTPTypes
import Hummingbird
import Logging

/// Gives every request an id: the caller's own (`X-Request-Id`) if it can stand in a log, else a new one. It is in the
/// answer and in what the request logs.
struct RequestIDMiddleware<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: @concurrent (Request, Context) async throws -> Response
    ) async throws -> Response {
        let id = request.headers[.requestID].flatMap { RequestID.isSane($0) ? $0 : nil } ?? RequestID.random()
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

    /// 128 random bits in hexadecimal.
    static func random() -> String {
        var generator = SystemRandomNumberGenerator()
        return [generator.next(), generator.next()].map { (word: UInt64) in
            let digits = String(word, radix: 16)
            return String(repeating: "0", count: 16 - digits.count) + digits
        }.joined()
    }
}

/// Where the logger of a request has its id.
private let requestIDKey = "request"

extension RequestContext {
    /// The id that ``RequestIDMiddleware`` has given the request.
    var requestID: String { logger[metadataKey: requestIDKey].map { "\($0)" } ?? RequestID.random() }
}

extension HTTPField.Name {
    static let requestID = Self("X-Request-Id")!
    static let freshetStale = Self("Freshet-Stale")!
    static let freshetRevision = Self("Freshet-Revision")!
}
