// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Rules for every request", .tags(.api), .timeLimit(.patience))
struct ServingTests {
    @Test("A request ID that is safe to log is kept, any other is replaced")
    func requestIDs() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                for (given, isTaken) in [
                    ("abc-1.2_3", true), ("with space", false), (String(repeating: "a", count: 129), false),
                    ("", false),
                ] {
                    var headers = HTTPFields()
                    headers[.requestID] = given
                    let answer = try await api.ask(.get, "\(TestAPI.base)/kinds", headers: headers)
                    let id = try #require(answer.headers[.requestID])
                    #expect((id == given) == isTaken && APIMiddleware.isSane(requestID: id))
                }
                #expect(try await api.ask(.get, "/nothing").headers[.requestID] != nil)
            }
        }
    }

    @Test("Bodies have a limit and a type, and unsupported methods are refused")
    func bodies() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let large = "{\"a\":\"\(String(repeating: "x", count: APICall.maximumBodyBytes))\"}"
                #expect(try await api.ask(.put, "\(TestAPI.base)/kinds/K", raw: large).status == 413)
                #expect(try await api.ask(.put, "\(TestAPI.base)/kinds/K").status == 400)
                var headers = HTTPFields()
                headers[.contentType] = "text/plain"
                #expect(try await api.ask(.put, "\(TestAPI.base)/kinds/K", raw: "{}", headers: headers).status == 415)
                var encoded = HTTPFields()
                encoded[.contentEncoding] = "gzip"
                #expect(try await api.ask(.put, "\(TestAPI.base)/kinds/K", raw: "{}", headers: encoded).status == 415)
                let method = try await api.ask(.post, "\(TestAPI.base)/widgets/w1")
                #expect(method.status == 405 && method.headers[.allow] == "DELETE, GET, HEAD, PUT")
                #expect(try await api.ask(.patch, "\(TestAPI.base)/kinds/K").status == 405)
                #expect(try await api.ask(.get, "/v1/apps").status == 404)
                #expect(try await api.ask(.get, "/v1/nothing").status == 404)
            }
        }
    }

    @Test("A token over its rate gets Retry-After, other tokens are served")
    func rates() async throws {
        try await withStore { store in
            let configuration = APIConfiguration.test { ($0.rateLimit, $0.rateBurst) = (1, 3) }
            try await withAPI(store, configuration: configuration) { api in
                // Sent concurrently, since the bucket refills during the responses.
                let answers = try await withThrowingTaskGroup(of: TestAPI.Answer.self) { group in
                    for _ in 0..<100 { group.addTask { try await api.ask(.get, "\(TestAPI.base)/kinds") } }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(answers.count { $0.status == 200 } >= 3)
                let refused = try #require(answers.first { $0.status == 429 })
                #expect(refused.headers[.retryAfter] == "1")
                let other = TestAPI.Bearer.token(try await api.tokens.token())
                #expect(try await api.ask(.get, "\(TestAPI.base)/kinds", as: other).status == 200)
            }
        }
    }

    @Test("Only pages from the listed origins may call the API")
    func origins() async throws {
        try await withStore { store in
            var headers = HTTPFields()
            headers[.origin] = "https://app.example.com"
            let asking = headers
            try await withAPI(store) { api in
                let answer = try await api.ask(.get, "\(TestAPI.base)/kinds", headers: asking)
                #expect(answer.status == 200 && answer.headers[.accessControlAllowOrigin] == nil)
            }
            let configuration = APIConfiguration.test { $0.corsOrigins = ["https://app.example.com"] }
            try await withAPI(store, configuration: configuration) { api in
                let answer = try await api.ask(.get, "\(TestAPI.base)/kinds", headers: asking)
                #expect(answer.headers[.accessControlAllowOrigin] == "https://app.example.com")
                #expect(answer.headers[.vary] == "Origin")
                var preflight = asking
                preflight[.accessControlRequestMethod] = "PUT"
                let allowed = try await api.ask(.options, "\(TestAPI.base)/kinds/K", as: .nobody, headers: preflight)
                #expect(allowed.status == 204 && allowed.headers[.accessControlAllowMethods]?.contains("PUT") == true)
                preflight[.origin] = "https://evil.example.com"
                let refused = try await api.ask(.options, "\(TestAPI.base)/kinds/K", as: .nobody, headers: preflight)
                #expect(refused.headers[.accessControlAllowOrigin] == nil)
            }
        }
    }
}
