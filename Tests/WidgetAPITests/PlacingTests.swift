// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import Logging
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Order of the checks of a placement", .tags(.api), .timeLimit(.patience))
struct PlacingTests {
    /// Placements on a device of u2 with the ID of u1's widget. Each has several errors, and the response reports the
    /// first in the order body, person, kind, family.
    @Test(
        "The first error is reported, and never that the ID is taken by another person",
        arguments: [
            (["user": "u1", "kind": "Nothing", "family": "huge"], 422, "/family"),
            (["user": "u1", "kind": "Nothing", "family": "systemSmall"], 403, nil),
            (["kind": "Nothing", "family": "systemSmall"], 422, "/kind"),
            (["kind": "DueDate", "family": "accessoryInline"], 422, "/family"),
            (["kind": "DueDate", "family": "systemSmall"], 202, nil),
        ] as [([String: String], Int, String?)])
    func order(_ members: [String: String], _ status: Int, _ pointer: String?) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                var body = JSONObject()
                body["device"] = "d2"
                body["environment"] = TestAPI.environment
                for (name, value) in members { body[name] = .string(value) }
                var answers: [TestAPI.Answer] = []
                for id in ["w1", "free"] {
                    let path = "\(TestAPI.base)/widgets/\(id)"
                    let answer = try await api.ask(.put, path, as: device, body: .object(body))
                    #expect(answer.status == status, "\(answer.text)")
                    #expect(answer.document["pointer"]?.stringValue == pointer, "\(answer.text)")
                    answers.append(answer)
                }
                if status != 202 { #expect(answers[0].text == answers[1].text) }
            }
        }
    }

    @Test("Successful and refused writes are in the audit log at every log level, reads are not")
    func audit() async throws {
        let log = RecordedLog(level: .warning)
        var logger = log.logger
        logger.logLevel = .critical
        let quietest = logger
        try await withStore { store in
            try await withAPI(store, logger: quietest) { api in
                let path = "\(TestAPI.base)/widgets/w1"
                _ = try await api.ask(.get, path)
                #expect(log.count(of: "audit") == 0)
                #expect(try await api.ask(.put, path, body: TestAPI.placement).status == 202)
                #expect(log.count(of: "audit") == 1 && log.count(of: "placeWidget") == 1)
                #expect(log.count(of: "tester") == 1 && log.count(of: "202") == 1)
                #expect(try await api.ask(.delete, path, as: .nobody).status == 401)
                #expect(log.count(of: "audit") == 2 && log.count(of: "nobody") == 1)
            }
        }
    }
}
