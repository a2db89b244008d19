import Hummingbird
import HummingbirdTesting
import Logging
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

extension Tag {
    @Tag static var api: Self
}

let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

let testToken = "correct-horse-battery-staple"

/// Lends the API's router, on a store with the test kinds.
func withAPI(
    _ store: TestStore, token: String? = testToken, checks: [ReadinessCheck] = [],
    _ body: @Sendable (any TestClientProtocol) async throws -> Void
) async throws {
    let service = APIService(
        configuration: APIConfiguration(port: 0, token: token.flatMap { BearerToken($0) }), store: store.store,
        readiness: Readiness(checks: checks), logger: quiet)
    let application = Application(router: service.router(), logger: quiet)
    try await application.test(.router) { client in try await body(client) }
}

extension TestClientProtocol {
    /// GETs a path, as JSON, with its status and content type.
    func json(
        _ path: String, token: String? = testToken
    ) async throws -> (status: Int, contentType: String?, document: JSONValue) {
        var headers = HTTPFields()
        if let token { headers[.authorization] = "Bearer \(token)" }
        return try await execute(uri: path, method: .get, headers: headers) { response in
            (
                response.status.code, response.headers[.contentType],
                try JSONValue.parse(Array(response.body.readableBytesView))
            )
        }
    }
}
