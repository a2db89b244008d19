// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

/// Checks the signature of the signed request that `schemas/` publishes.
@Suite(.timeLimit(.patience))
struct SignatureExampleTests {
    @Test func signature() throws {
        let example = try SchemaCheck.schema("provider/signature.example.json")
        let secret = try #require(example["secret"]?.stringValue)
        let key = try #require(Data(base64Encoded: String(secret.dropFirst("whsec_".count))))
        let headers = try #require(example["headers"])
        let timestamp = try #require(headers["webhook-timestamp"]?.stringValue.flatMap { Int64($0) })
        let signature = ProviderClient.signature(
            secrets: [[UInt8](key)], id: try #require(headers["webhook-id"]?.stringValue), timestamp: timestamp,
            body: Array(try #require(example["body"]?.stringValue).utf8))
        #expect(headers["webhook-signature"]?.stringValue == signature)
    }
}
