// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import ReloadWorkers
import TestSupport
import Testing
import WidgetAPI
import WidgetModel

@testable import FreshetService
@testable import WidgetStore
@testable import freshet

@Suite(.timeLimit(.patience)) struct DoctorTests {
    private static let good = [
        "server_version_num": "150004", "fsync": "on", "full_page_writes": "on", "autovacuum": "on",
        "track_counts": "on", "synchronous_commit": "on", "shared_buffers": "131072",
    ]

    private static func judge(_ changes: [String: String]) -> [Finding] {
        let values = good.merging(changes) { $1 }
            .map { ($0.key, ServerSetting(name: $0.key, setting: $0.value, unit: nil)) }
        return Doctor.judge(Dictionary(uniqueKeysWithValues: values))
    }

    @Test("A well-configured server has no findings")
    func goodServer() {
        #expect(Self.judge([:]).allSatisfy { $0.severity == .ok })
    }

    @Test(
        "Each setting that endangers Freshet is reported with a remedy",
        arguments: [
            ("fsync", "off", Finding.Severity.problem), ("full_page_writes", "off", .problem),
            ("autovacuum", "off", .problem), ("track_counts", "off", .problem),
            ("synchronous_commit", "off", .warning), ("shared_buffers", "16384", .warning),
            ("server_version_num", "140009", .problem),
        ])
    func badSetting(_ name: String, _ value: String, _ severity: Finding.Severity) {
        let found = Self.judge([name: value]).filter { $0.severity != .ok }
        #expect(found.map(\.severity) == [severity])
        #expect(found.first?.advice?.isEmpty == false)
    }

    @Test(
        "Clocks that differ are reported",
        arguments: [
            (Duration.zero, Finding.Severity.ok), (.milliseconds(900), .ok), (.milliseconds(-1_500), .warning),
            (.seconds(29), .warning), (.seconds(31), .problem), (.seconds(-3_600), .problem),
        ])
    func clock(_ skew: Duration, _ severity: Finding.Severity) {
        #expect(Doctor.judge(skew: skew, within: .milliseconds(1)).severity == severity)
    }

    @Test("Token keys are validated as by the API: a file that stops its start is a problem")
    func keys() async throws {
        func set(_ keys: JSONValue...) -> JSONValue { ["keys": .array(keys)] }
        let good = TokenKeys.makeKey(.hs256, id: "a")
        let sets: [(JSONValue, Finding.Severity)] = [
            (set(good), .ok), (set(good, TokenKeys.makeKey(.eddsa, id: "b")), .ok),
            // A key for another purpose is ignored.
            (set(good, ["kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"]), .ok),
            (set(), .problem), (["keys": 7], .problem),
            (set(["kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"]), .problem),
            (set(["kty": "oct", "kid": "short", "k": "c2hvcnQ"]), .problem),
            (set(good, good), .problem), (set(["kty": "oct", "k": good["k"] ?? .null]), .problem),
            (set(["kty": "OKP", "crv": "Ed25519", "kid": "e", "x": "AAAA"]), .problem),
        ]
        for (document, severity) in sets {
            let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).json").path
            defer { try? FileManager.default.removeItem(atPath: path) }
            try Data(document.encoded).write(to: URL(filePath: path))
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
            var settings = Settings()
            settings.api.keys = path
            let doctor = Doctor(settings: settings, warnings: [], timeLimit: .seconds(5))
            let found = await Doctor.findings(of: "keys") { try await doctor.checkKeys() }
            let text = String(decoding: document.encoded, as: UTF8.self)
            #expect(found.map(\.severity) == [severity], "\(text): \(found)")
            // The API's own verdict on the same file.
            let isUsable = (try? await TokenKeys(jwks: document.encoded)) != nil
            #expect(isUsable == (severity == .ok), "\(text)")
        }
    }

    @Test(
        "Provider failures are explained",
        arguments: [
            (ProviderFailure.Reason.status, 401, Finding.Severity.problem), (.status, 403, .problem),
            (.status, 404, .problem), (.status, 400, .ok), (.status, 422, .ok), (.status, 503, .warning),
            (.status, 429, .warning), (.connection, nil, .problem), (.timeout, nil, .problem),
            (.refused, nil, .problem),
            (.unresolved, nil, .problem), (.invalid, nil, .ok),
        ] as [(ProviderFailure.Reason, Int?, Finding.Severity)])
    func provider(_ reason: ProviderFailure.Reason, _ status: Int?, _ severity: Finding.Severity) {
        let failure = ProviderFailure(reason, "why", status: status)
        #expect(Doctor.judge(failure, of: "https://p.example.com", app: "com.example").severity == severity)
    }

    @Test("A variable that names a proxy is a problem, unless everything is exempt")
    func proxy() {
        for (exempt, isFound) in [("localhost", true), ("*", false)] {
            var settings = Settings()
            settings.proxyProblem = Settings.proxyProblem(
                in: ["HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": exempt])
            let doctor = Doctor(settings: settings, warnings: [], timeLimit: .seconds(5))
            #expect(
                doctor.checkSettings().contains { $0.severity == .problem && $0.message.contains("HTTPS_PROXY") }
                    == isFound)
        }
    }

    @Test("Processes that are not ready, and roles that no process has, are problems")
    func processes() async throws {
        try await withStore { store in
            let doctor = Doctor(settings: Settings(), warnings: [], timeLimit: .seconds(5))
            func findings() async -> [Finding] {
                await Doctor.findings(of: "processes") { [pool = store.pool] in try await doctor.checkProcesses(pool) }
            }
            #expect(await findings().map(\.severity) == [.skipped])
            let kafka = ProcessObstacle(name: "kafka", reason: "no broker answers")
            _ = try await store.pool.execute(.reportProcess(1, role: "ingest", obstacles: [kafka]))
            let found = await findings()
            #expect(found.map(\.severity) == [.problem, .problem])
            #expect(found[0].message == "kafka (a process of the role ingest): no broker answers")
            #expect(found[1].message.hasPrefix("workers (no process): no process of this role reports"))
            _ = try await store.pool.execute(.reportProcess(1, role: "all", obstacles: []))
            #expect(await findings().map(\.severity) == [.ok])
        }
    }

    @Test("An app's operator gets every check of the installation, with its details only if no other app is registered")
    func checksOfOneApp() async throws {
        let secret = "a bucket of another app"
        let checks: [Doctor.Check] = [
            ("kafka", { [.problem(in: "kafka", secret, advice: secret), .ok(in: "kafka.topics", secret)] }),
            ("ingest", { [.ok(in: "ingest", "own")] }),
        ]
        for apps in 1...2 {
            try await withStore(Array(TestKinds.apps().prefix(apps))) { store in
                var settings = Settings()
                settings.postgres.url = store.connectionString
                let doctor = Doctor(settings: settings, warnings: [], timeLimit: Patience.limit, app: TestKinds.app)
                let found = await doctor.findings(checks)
                #expect(found.map(\.check) == ["kafka", "kafka.topics", "ingest"])
                #expect(found.map(\.severity) == [.problem, .ok, .ok] && found[2].message == "own")
                #expect(found.contains { "\($0)".contains(secret) } == (apps == 1))
            }
        }
    }

    @Test("An audit counter above zero is a problem")
    func audit() {
        let name = MetricRegistry.catalogue.auditAppointed.definition.name
        #expect(Doctor.judge(metrics: "# TYPE \(name) counter\n\(name) 0\n").severity == .ok)
        let found = Doctor.judge(metrics: "other 7\n\(name) 3\n")
        #expect(found.severity == .problem && found.message.hasPrefix("3 timelines"))
        #expect(Doctor.judge(metrics: "other 7\n").severity == .skipped)
    }

    @Test("An audit that stands for half an hour, or ends no whole pass in a day, is a warning")
    func auditProgress() async throws {
        try await withStore { store in
            let doctor = Doctor(settings: Settings(), warnings: [], timeLimit: .seconds(5))
            func finding(advanced: String, began: String) async throws -> Finding? {
                try await store.sql(
                    """
                    UPDATE audit SET advanced_at = now() - interval '\(advanced)',
                        pass_begins_at = now() - interval '\(began)'
                    """)
                return await Doctor.findings(of: "audit.progress") { [pool = store.pool] in
                    try await doctor.checkAuditProgress(pool)
                }.first
            }
            #expect(try await finding(advanced: "1 hour", began: "1 hour")?.severity == .skipped, "no worker")
            _ = try await store.pool.query(.registerWorker(1))
            #expect(try await finding(advanced: "20 minutes", began: "20 hours")?.severity == .ok)
            #expect(try await finding(advanced: "20 hours", began: "-5 minutes")?.severity == .ok, "between two passes")
            let stands = try await finding(advanced: "1 hour", began: "20 hours")
            #expect(stands?.severity == .warning && stands?.message.contains("has not advanced") == true)
            let endless = try await finding(advanced: "1 second", began: "2 days")
            #expect(endless?.severity == .warning && endless?.message.contains("no whole pass") == true)
        }
    }

    @Test("A check that hangs becomes a finding after its time limit")
    func hanging() async {
        func check(_ name: String, _ run: @escaping @Sendable () async throws -> [Finding]) -> Doctor.Check {
            (name, run)
        }
        var settings = Settings()
        settings.healthPort = 1
        // Both checks have the limit; on a busy machine even the quick one may exceed a short limit.
        for limit in [50, 500, 5_000, 50_000] {
            let doctor = Doctor(settings: settings, warnings: [], timeLimit: .milliseconds(limit))
            let hanging = check("hangs") {
                try? await Task.sleep(for: .seconds(3_600))
                return [.ok(in: "hangs", "after all")]
            }
            let found = await doctor.findings([hanging, check("quick") { [.ok(in: "quick", "is there")] }])
            #expect(found.map(\.check) == ["hangs", "quick"])
            #expect(found.first?.severity == .problem)
            if found.last?.severity == .ok { return }
        }
        Issue.record("the quick check never ended within the limit")
    }
}
