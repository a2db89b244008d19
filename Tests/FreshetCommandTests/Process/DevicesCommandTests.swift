// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// `freshet devices …`, as operators run it.
@Suite(.tags(.process), .timeLimit(.patience))
struct DevicesCommandTests {
    private static let app = TestKinds.app

    private typealias Run = ([String]) async throws -> (status: Int32, out: String, err: String)

    /// Creates a store with a token device of u1 and a webhook device of u2, and passes it to the closure.
    private func withDevices(_ body: (TestStore, Run) async throws -> Void) async throws {
        try await withStore { store in
            func key(_ byte: UInt8) -> String { Data(repeating: byte, count: 32).base64EncodedString() }
            let old = try #require(DeviceTokenKeys([(id: "k1", secret: Array(repeating: 1, count: 32))]))
            let address = APNsAddress(
                token: Array(1...8), environment: .production, topic: Self.app + APNsAddress.topicSuffix)
            let owner = DeviceTokenKeys.Owner(appID: 1, user: "u1", device: "d1")
            let writes = [
                RegistrationWrite(
                    appID: 1, user: "u1", device: "d1", time: Timestamp(microseconds: 1), isOrderedByArrival: false,
                    channel: .apns(address), token: try old.seal(address.token, for: owner)),
                RegistrationWrite(
                    appID: 1, user: "u2", device: "d2", time: Timestamp(microseconds: 1), isOrderedByArrival: false,
                    channel: .webhook),
            ]
            _ = try await store.pool.query(.writeRegistrations(writes))
            let environment = [
                "FRESHET_POSTGRES_URL": store.connectionString,
                "FRESHET_DELIVERY_TOKEN_KEYS": "k1=\(key(1)),k2=\(key(2))",
            ]
            try await body(store) { try await FreshetProcess.run(["devices"] + $0, environment: environment) }
        }
    }

    @Test("`show` lists a user's devices without their tokens")
    func show() async throws {
        try await withDevices { store, run in
            try await store.sql("UPDATE registration SET apns_id = 'EFDE-1'")
            let json = try await run(["show", "--app", Self.app, "--user", "u1", "--json"])
            #expect(json.status == 0, "\(json.err)")
            let devices = try #require(try JSONValue.parse(json.out).arrayValue)
            #expect(devices.count == 1 && devices[0]["device"] == "d1" && devices[0]["kinds"] == [])
            #expect(devices[0]["apnsID"] == "EFDE-1")
            #expect(!json.out.contains("0102030405060708"))
            let text = try await run(["show", "--app", Self.app, "--user", "u1"])
            #expect(
                text.status == 0 && text.out.hasPrefix("DEVICE") && text.out.contains("d1")
                    && text.out.contains("EFDE-1"))
        }
    }

    @Test("`keys` and `reseal` rotate the keys of tokens")
    func rotation() async throws {
        try await withDevices { _, run in
            #expect(try JSONValue.parse(try await run(["keys", "--json"]).out) == [["key": "k1", "devices": 1]])
            let resealed = try await run(["reseal"])
            #expect(resealed.status == 0 && resealed.out.contains("1 token"), "\(resealed.err)")
            #expect(try JSONValue.parse(try await run(["keys", "--json"]).out) == [["key": "k2", "devices": 1]])
        }
    }

    @Test("`webhooks` shows a disabled webhook; `resume` and `replay` notify its devices")
    func webhooks() async throws {
        try await withDevices { store, run in
            try await store.sql(
                """
                INSERT INTO webhook (app_id, failing_since, failed_at, disabled_at, error)
                VALUES (1, now(), now(), now(), 'status 500');
                UPDATE registration SET changed = 1 WHERE device_id = 'd2'
                """)
            let failing = try await run(["webhooks"])
            #expect(failing.status == 0 && failing.out.contains("status 500"), "\(failing.err)")
            let resumed = try JSONValue.parse(try await run(["resume", "--app", Self.app, "--json"]).out)
            #expect(resumed["devices"] == 1 && resumed["wasFailing"] == true)
            #expect(try await store.integer("SELECT count(*) FROM webhook") == 0)
            try await store.sql(
                "UPDATE registration SET sent = changed, sent_at = now(), listed_at = 'infinity'; DELETE FROM delivery")
            let replayed = try await run(["replay", "--app", Self.app, "--since", "2020-01-01T00:00:00Z", "--json"])
            #expect(try JSONValue.parse(replayed.out)["devices"] == 1, "\(replayed.err)")
            #expect(try await store.integer("SELECT count(*) FROM delivery") == 1)
        }
    }
}
