// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel

@Suite("Doctor's checks of the delivery", .tags(.process), .timeLimit(.patience))
struct DoctorDeliveryTests {
    private static let app = TestKinds.app

    /// Findings about the delivery, as `severity: message`.
    private func findings(_ store: TestStore, _ settings: [String: String]) async throws -> [String] {
        let settings = settings.sorted { $0.key < $1.key }.flatMap { ["--set", "\($0.key)=\($0.value)"] }
        let doctor = try await FreshetProcess.run(
            ["doctor", "--json", "--time-limit", "300", "--set", "kafka.embedded=true"] + settings,
            environment: ["FRESHET_POSTGRES_URL": store.connectionString])
        return try #require(JSONValue.parse(doctor.out)["findings"]?.arrayValue).compactMap { finding in
            guard finding["check"] == "delivery" else { return nil }
            return "\(finding["severity"]?.stringValue ?? ""): \(finding["message"]?.stringValue ?? "")"
        }
    }

    /// A push service that trusts the app's key, a registered device, and the settings for both.
    private func withPushService(
        _ body: (_ standIn: APNsStandIn, _ key: String, _ store: TestStore, [String: String]) async throws -> Void
    ) async throws {
        let standIn = try await APNsStandIn.start()
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let key = APNsStandIn.makeKey()
        let (file, roots) = (folder.appending(path: "k.p8"), folder.appending(path: "r.pem"))
        try Data(key.utf8).write(to: file)
        try Data(standIn.certificatePEM.utf8).write(to: roots)
        try await withStore { store in
            let topic = Self.app + APNsAddress.topicSuffix
            try await store.sql(
                """
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, environment, topic, token_key,
                    token) VALUES (1, 'u1', 'd1', now(), 1, 1, '\(topic)', 'k1', 'secret token')
                """)
            try await body(
                standIn, key, store,
                [
                    "delivery.apnsKeys": "\(Self.app)=TEAM/KEY/\(file.path)", "delivery.apnsURL": standIn.url,
                    "delivery.trustRoots": roots.path,
                    "delivery.tokenKeys": "k1=\(Data(repeating: 1, count: 32).base64EncodedString())",
                ])
        }
        try await standIn.stop()
    }

    @Test("The app's key and this machine's clock are checked with the push service")
    func service() async throws {
        try await withPushService { standIn, key, store, settings in
            #expect(try await findings(store, settings).map { $0.hasPrefix("ok") } == [true])
            try standIn.trust(key, keyID: "KEY", teamID: "OTHER")
            #expect(try await findings(store, settings).contains { $0.contains("refuses the key") })
            try standIn.trust(key, keyID: "KEY", teamID: "TEAM")
            standIn.set { _ in .answer(APNsAnswer(status: 403, reason: "ExpiredProviderToken")) }
            #expect(try await findings(store, settings).contains { $0.contains("expired") })
            standIn.set { _ in .answer(APNsAnswer(status: 400, reason: "BadDeviceToken")) }
            #expect(try await findings(store, settings).map { $0.hasPrefix("ok") } == [true])
        }
    }

    @Test("Devices whose tokens the push service does not know, and topics of another bundle, are reported")
    func devices() async throws {
        try await withPushService { _, _, store, settings in
            try await store.sql("UPDATE registration SET attempts = 1, reason = 'BadDeviceToken'")
            #expect(
                try await findings(store, settings).contains {
                    $0.hasPrefix("problem") && $0.contains("does not know the tokens of 1 of 1 device")
                })
            try await store.sql("UPDATE registration SET topic = 'org.example.push-type.widgets'")
            #expect(try await findings(store, settings).contains { $0.hasPrefix("warning") && $0.contains("bundle") })
        }
    }

    @Test("A push service that does not answer and missing keys are reported, without secrets")
    func missing() async throws {
        try await withPushService { _, _, store, settings in
            var settings = settings
            settings["delivery.apnsURL"] = "https://localhost:1"
            #expect(try await findings(store, settings).contains { $0.contains("cannot be asked") })
            settings["delivery.apnsKeys"] = nil
            settings["delivery.tokenKeys"] = nil
            let missing = try await findings(store, settings)
            #expect(missing.contains { $0.contains("no key of the app") })
            #expect(missing.contains { $0.contains("\"k1\"") } && missing.allSatisfy { !$0.contains("secret") })
        }
    }
}
