// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Operator routes", .tags(.api), .timeLimit(.patience))
struct OperatorRoutesTests {
    private static let base = TestAPI.base

    /// Stores a push as a dead letter.
    private static func keep(
        _ store: TestStore, _ offset: Int64, app: String = TestKinds.app, kind: String = "Purchases",
        cause: String = "unknownKind"
    ) async throws {
        let event = """
            {"specversion":"1.0","id":"e\(offset)","source":"/t","type":"freshet.push.received.v1",\
            "data":{"app":"\(app)","audience":{"user":"u1"},"kinds":["\(kind)"]}}
            """
        let letter = DeadLetter(
            topic: "freshet.pushes", partition: 0, offset: offset, app: app, code: cause, error: "e", messageTime: 1,
            key: nil, headers: [(name: "content-type", value: Array("application/cloudevents+json".utf8))],
            payload: Array(event.utf8))
        _ = try await store.store.pool.execute(.insertDeadLetter(letter))
    }

    private static func waiting(_ store: TestStore, app: String = TestKinds.app) async throws -> Int {
        try await store.integer(
            "SELECT count(*) FROM dead_letter WHERE replayed_at IS NULL AND discarded_at IS NULL AND app = '\(app)'")
    }

    @Test("The explanation of an unknown widget lists the events without effect")
    func ignoredOnly() async throws {
        try await withStore { store in
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let removal = EventOutcome(
                appID: app.id, event: "e", source: "/s", type: "freshet.widget.removed.v1", topic: "freshet.widgets",
                partition: 0, offset: 7, widget: "w1", result: .ignored, code: "unknownWidget",
                detail: "no such widget was placed")
            _ = try await store.store.pool.execute(.insertEventOutcomes([removal]))
            try await withAPI(store) { api in
                let told = try await api.json("\(Self.base)/widgets/w1/explanation")
                #expect(told.status == 404, "\(told.document)")
                #expect(told.document["detail"]?.stringValue?.contains("no such widget was placed") == true)
                let nothing = try await api.json("\(Self.base)/widgets/w2/explanation")
                #expect(nothing.status == 404 && nothing.document["detail"] != told.document["detail"])
            }
        }
    }

    @Test("The delivery sums up an app's own changes and devices")
    func delivery() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO delivery_statistics (kind_id, bucket, changes, fetched, late, latencies, push_latencies)
                SELECT k.id, now() - age, 4, 3, 1, '{0,0,2,1}', '{0,3,0,0}'
                FROM kind k, unnest(ARRAY[interval '1 hour', interval '2 days']) age WHERE k.name = 'Purchases';
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, changed, first_sent_at, fetched_at)
                SELECT app, 'u' || n, 'd', now(), 2, n, now() - n * interval '1 day', now() - interval '2 days'
                FROM generate_series(0, 3) n, unnest(ARRAY[1, 2]) app
                """)
            try await withAPI(store) { api in
                let day = try await api.json("\(Self.base)/delivery")
                #expect(day.status == 200, "\(day.document)")
                #expect(day.document["devices"] == ["registered": 4, "waiting": 3, "silent": 1])
                let kinds = try #require(day.document["kinds"]?.arrayValue)
                #expect(kinds.map { $0["kind"] } == ["Purchases"])
                #expect(kinds[0]["changes"] == 4 && kinds[0]["notFetched"] == 1)
                func share(_ share: Double) -> JSONValue? { JSONNumber(share).map(JSONValue.number) }
                #expect(kinds[0]["notFetchedShare"] == share(0.25) && kinds[0]["inTime"] == share(0.5))
                #expect(kinds[0]["p50Milliseconds"] == 7)
                #expect(kinds[0]["pushP50Milliseconds"] == 3)
                let week = try await api.json("\(Self.base)/delivery?days=7").document
                #expect(week["kinds"]?.arrayValue?.first?["changes"] == 8 && week["days"] == 7)
            }
        }
    }

    @Test("The delivery of more than a month is refused")
    func longDelivery() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let long = try await api.json("\(Self.base)/delivery?days=32")
                #expect(long.status == 400)
                #expect("\(long.document)".contains("expected a whole number from 1 to 31"))
            }
        }
    }

    @Test("The explanation includes the widget's device with its notification and fetches, but without its token")
    func explainedDevice() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", user: "u2", device: "d2")])
            try await store.sql(
                """
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, environment, topic, token_key,
                    token, answer, sent_at, push_latencies, push_kinds)
                SELECT 1, 'u1', 'd1', now(), 1, 1, 'a.push-type.widgets', 'k1', 'secret', 200, now(), '{900,100}',
                    ARRAY[id, id] FROM kind WHERE name = 'Purchases' AND app_id = 1
                """)
            try await withAPI(store) { api in
                let told = try await api.json("\(Self.base)/widgets/w1/explanation").document
                let delivery = try #require(told["delivery"])
                #expect(delivery["answer"] == 200 && delivery["channel"] == "apns" && delivery["token"] == nil)
                #expect(
                    delivery["kinds"] == [
                        ["kind": "Purchases", "fetches": 2, "p50Milliseconds": 900, "p99Milliseconds": 900]
                    ])
                let other = try await api.json("\(Self.base)/widgets/w2/explanation").document
                #expect(other["delivery"] == .null)
            }
        }
    }

    private static func requested(_ store: TestStore) async throws -> Int {
        try await store.integer("SELECT sum(requested) FROM timeline")
    }

    private static func letter(_ offset: Int, _ store: TestStore) async throws -> Int {
        try await store.integer("SELECT id FROM dead_letter WHERE \"offset\" = \(offset)")
    }

    private static func replay(_ path: String, _ api: TestAPI) async throws -> JSONValue {
        let answer = try await api.ask(.post, "\(base)/dead-letters/\(path)")
        #expect(answer.status == 200, "\(path): \(answer.text)")
        return answer.document
    }

    private static let one: JSONValue = ["replayed": 1, "failed": 0, "failures": [:], "dryRun": false]

    /// Keeps four dead letters of an app, of which the third one cannot be applied, and one of another app.
    private static func withDeadLetters(
        _ body: @escaping @Sendable (_ store: TestStore, _ api: TestAPI) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            for offset: Int64 in 1...2 { try await keep(store, offset) }
            try await keep(store, 3, kind: "Nothing")
            try await keep(store, 4, cause: "diverted")
            try await keep(store, 5, app: TestKinds.otherApp)
            try await withAPI(store) { api in try await body(store, api) }
        }
    }

    @Test("An app's dead letters are counted by cause, and a dry run of their replay changes nothing")
    func dryReplay() async throws {
        try await Self.withDeadLetters { store, api in
            let before = try await Self.requested(store)
            let counts = try await api.json("\(Self.base)/dead-letter-counts").document["counts"]
            #expect(counts?["unknownKind"] == 3 && counts?["diverted"] == 1 && counts?["invalid"] == 0)

            let dry = try await Self.replay("replay?cause=unknownKind&dryRun=true", api)
            #expect(dry == ["replayed": 2, "failed": 1, "failures": ["unknownKind": 1], "dryRun": true])
            #expect(try await Self.waiting(store) == 4)
            #expect(try await Self.requested(store) == before)
        }
    }

    @Test("A dead letter is replayed once")
    func replayedOne() async throws {
        try await Self.withDeadLetters { store, api in
            let before = try await Self.requested(store)
            let id = try await Self.letter(1, store)
            #expect(try await Self.replay("\(id)/replay", api) == Self.one)
            #expect(try await Self.requested(store) == before + 1)
            #expect(try await api.ask(.post, "\(Self.base)/dead-letters/\(id)/replay").status == 404)
        }
    }

    @Test("Dead letters are replayed by cause, in a limited number, or all; those that fail again keep waiting")
    func replayedMany() async throws {
        try await Self.withDeadLetters { store, api in
            #expect(try await Self.replay("replay?cause=diverted", api) == Self.one)
            for _ in 1...2 { #expect(try await Self.replay("replay?limit=1", api) == Self.one) }
            let failed = try await Self.replay("replay", api)
            #expect(failed == ["replayed": 0, "failed": 1, "failures": ["unknownKind": 1], "dryRun": false])
            #expect(try await Self.waiting(store) == 1)
        }
    }

    @Test("Dead letters of another app and unknown ones are not found, and wrong parameters are refused")
    func refusedReplays() async throws {
        try await Self.withDeadLetters { store, api in
            let foreign = try await Self.letter(5, store)
            for path in ["\(foreign)", "0", "99999999999999999999", "x"] {
                #expect(try await api.ask(.post, "\(Self.base)/dead-letters/\(path)/replay").status == 404)
            }
            #expect(try await Self.waiting(store, app: TestKinds.otherApp) == 1)
            for query in ["cause=bad", "limit=0", "limit=10001", "dryRun=yes", "app=x"] {
                #expect(try await api.ask(.post, "\(Self.base)/dead-letters/replay?\(query)").status == 400)
            }
        }
    }

    @Test("A person is erased from one app only")
    func erase() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", user: "u2"), .test("w1", app: TestKinds.otherApp)])
            try await withAPI(store) { api in
                let erased = try await api.ask(.delete, "\(Self.base)/users/u1")
                #expect(erased.status == 200)
                #expect(erased.document == ["widgets": 1, "timelines": 1, "deadLetters": 0])
                #expect(try await api.json("\(Self.base)/widgets/w1").status == 404)
                #expect(try await api.json("\(Self.base)/widgets/w2").status == 200)
                #expect(try await store.integer("SELECT count(*) FROM widget") == 2)
                let again = try await api.ask(.delete, "\(Self.base)/users/u1")
                #expect(again.status == 200 && again.document["widgets"] == 0)
                #expect(try await api.ask(.delete, "\(Self.base)/users/%00").status == 400)
            }
        }
    }

    private static let secret = "\(base)/signing-secret"

    private static func secrets(
        _ store: TestStore, of app: String = TestKinds.app
    ) async throws -> [[UInt8]] {
        try await store.directory().apps[app]?.signingSecrets ?? []
    }

    @Test("A new signing secret is returned once, and the old one stays valid")
    func rotation() async throws {
        try await withStore { store in
            let old = try await Self.secrets(store)
            try await withAPI(store) { api in
                let path = Self.secret
                #expect(try await api.json(path).document["previousSecretExpiresAt"] == .null)
                let rotated = try await api.ask(.post, "\(path)/rotation?keepOld=3600")
                #expect(rotated.status == 200 && rotated.document["changed"] == true)
                #expect(rotated.headers[.cacheControl] == "no-store")
                let secret = try #require(SigningSecret(rotated.document["secret"]?.stringValue ?? ""))
                #expect(try await Self.secrets(store) == [secret.bytes] + old)
                let shown = try await api.ask(.get, path)
                #expect(shown.document["previousSecretExpiresAt"] != .null && !shown.text.contains("whsec_"))
            }
        }
    }

    @Test("A rotation of the signing secret has to end before the next one, and ends once")
    func rotationEnd() async throws {
        try await withStore { store in
            let old = try await Self.secrets(store)
            let others = try await Self.secrets(store, of: TestKinds.otherApp)
            try await withAPI(store) { api in
                let path = Self.secret
                let rotated = try await api.ask(.post, "\(path)/rotation?keepOld=3600")
                let secret = try #require(SigningSecret(rotated.document["secret"]?.stringValue ?? ""))
                let second = try await api.ask(.post, "\(path)/rotation")
                #expect(second.status == 409 && second.text.contains("end it first"))
                #expect(try await Self.secrets(store) == [secret.bytes] + old, "the provider may use either")
                #expect(try await api.ask(.delete, "\(path)/rotation").document["ended"] == true)
                #expect(try await Self.secrets(store) == [secret.bytes])
                #expect(try await api.ask(.delete, "\(path)/rotation").document["ended"] == false)
            }
            #expect(try await Self.secrets(store, of: TestKinds.otherApp) == others)
        }
    }

    @Test("A rotation with wrong parameters is refused and changes no secret")
    func refusedRotation() async throws {
        try await withStore { store in
            let old = try await Self.secrets(store)
            try await withAPI(store) { api in
                let path = Self.secret
                for query in ["keepOld=-1", "keepOld=1h", "keepOld=99999999999", "secret=x"] {
                    #expect(try await api.ask(.post, "\(path)/rotation?\(query)").status == 400, "\(query)")
                }
                let current = try await Self.secrets(store)
                #expect(current == old)
            }
        }
    }

    @Test("A provider test is signed with the app's secrets and reports the answer")
    func provider() async throws {
        let asked = Mutex<[(String, [[UInt8]])]>([])
        try await withStore { store in
            let app = try await store.directory().apps[TestKinds.app]
            try await withAPI(
                store,
                askProvider: { url, secrets in
                    let count = asked.withLock { asked in
                        asked.append((url, secrets))
                        return asked.count
                    }
                    guard count > 1 else { return nil }
                    return (reason: "status", message: "status 503", status: 503)
                }
            ) { api in
                let path = "\(Self.base)/kinds/Purchases/provider-test"
                let good = try await api.ask(.post, path)
                #expect(good.status == 200 && good.document["accepted"] == true && good.document["reason"] == .null)
                let bad = try await api.ask(.post, path).document
                #expect(bad["accepted"] == false && bad["status"] == 503 && bad["message"] == "status 503")
                #expect(try await api.ask(.post, "\(Self.base)/kinds/Nothing/provider-test").status == 404)
            }
            let requests = asked.withLock { $0 }
            #expect(requests.count == 2 && requests[0].1 == app?.signingSecrets)
        }
    }
}
