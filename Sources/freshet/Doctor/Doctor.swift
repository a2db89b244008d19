// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import KafkaClient
import Logging
import PostgresClient
import ReloadWorkers
import Waiting
import WidgetAPI
import WidgetModel
import WidgetStore

/// Checks everything that Freshet needs and gives advice. It changes nothing.
struct Doctor: Sendable {
    let settings: Settings
    let warnings: [String]
    let timeLimit: Duration
    /// App whose operator reads the findings, and whose providers and devices alone are checked; nil: all.
    var app: String?
    var logger = Logger.ofCommands

    /// Checks whose findings concern an app, and show nothing of the installation or of other apps.
    private static let checksOfApps = ["ingest", "sweeps", "kinds", "providers", "delivery"]

    /// A check that throws a ``Finding`` ends with it.
    typealias Check = (name: String, run: @Sendable () async throws -> [Finding])

    /// All findings, in the order of the checks, which run concurrently.
    ///
    /// - Parameter checks: checks to run; nil for all.
    func findings(_ checks: [Check]? = nil) async -> [Finding] {
        let pool = settings.postgres.url.flatMap { _ in makePool() }
        let checks = checks ?? all(pool)
        let found = await withTaskGroup(of: (Int, [Finding]).self) { group in
            for (index, check) in checks.enumerated() {
                group.addTask { [timeLimit] in (index, await Self.run(check, within: timeLimit)) }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        // The details of the installation are those of its only app.
        let isShared = if app != nil, let pool { await Self.isShared(pool, within: timeLimit) } else { app != nil }
        // Not awaited, since a statement may hang.
        if let pool { Task { await pool.shutdown() } }
        return found.sorted { $0.0 < $1.0 }.flatMap { index, findings in
            isShared && !Self.checksOfApps.contains(checks[index].name) ? Finding.withoutDetails(findings) : findings
        }
    }

    /// Whether the installation has several apps, or its apps cannot be read.
    private static func isShared(_ pool: PostgresPool, within limit: Duration) async -> Bool {
        let apps = try? await withTimeLimit(limit) { try await pool.query(.listApps()).count }
        return (apps ?? nil) != 1
    }

    /// Runs a check within the limit. A check that hangs is abandoned.
    private static func run(_ check: Check, within limit: Duration) async -> [Finding] {
        let (answers, continuation) = AsyncStream.makeStream(of: [Finding].self, bufferingPolicy: .bufferingOldest(1))
        let work = Task { continuation.yield(await findings(of: check.name, check.run)) }
        let timer = Task {
            try? await Task.sleep(for: limit)
            continuation.yield([
                .problem(
                    in: check.name, "did not end within \(limit.words)",
                    advice: "check whether it can be reached from here, or raise --time-limit")
            ])
        }
        defer {
            work.cancel()
            timer.cancel()
        }
        return await answers.first { _ in true } ?? []
    }

    static func findings(of check: String, _ run: @Sendable () async throws -> [Finding]) async -> [Finding] {
        do {
            return try await run()
        } catch let finding as Finding {
            return [finding]
        } catch is PostgresError {
            return [.skipped(in: check, "not checked, since PostgreSQL cannot be asked")]
        } catch {
            return [.skipped(in: check, "not checked: \(error)")]
        }
    }

    private func makePool() -> PostgresPool? {
        guard var configuration = try? settings.postgresConfiguration() else { return nil }
        configuration.maximumConnections = 4
        // Below the limit of a check, so that it reports the error and not the timeout.
        let limit = timeLimit / 2
        configuration.acquireTimeout = min(configuration.acquireTimeout, limit)
        configuration.connectTimeout = min(configuration.connectTimeout, limit)
        configuration.statementTimeout = min(configuration.statementTimeout ?? limit, limit)
        return PostgresPool(configuration: configuration, logger: logger)
    }

    private func all(_ pool: PostgresPool?) -> [Check] {
        func check(_ name: String, _ run: @escaping @Sendable () async throws -> [Finding]) -> Check { (name, run) }
        let checks = [
            check("settings") { checkSettings() }, check("keys") { try await checkKeys() },
            check("audit") { try await checkAudit() }, check("kafka") { try await checkKafka() },
        ]
        guard let pool else {
            let missing = check("postgres") {
                throw Finding.problem(
                    in: "postgres", "postgres.url is not set, or cannot be read",
                    advice: "set postgres.url, such as postgresql://freshet@db.example.com/freshet")
            }
            return checks + [missing]
        }
        return checks + [
            check("kafka.cluster") { try await checkCluster(pool) },
            check("kafka.positions") { try await checkPositions(pool) },
            check("postgres") { try await checkPostgres(pool) }, check("clock") { try await checkClock(pool) },
            check("ingest") { try await checkIngest(pool) }, check("history") { try await checkHistory(pool) },
            check("retention") { try await checkRetention(pool) }, check("sweeps") { try await checkSweeps(pool) },
            check("audit.progress") { try await checkAuditProgress(pool) },
            check("processes") { try await checkProcesses(pool) },
            check("kinds") { try await checkKinds(pool) }, check("providers") { try await checkProviders(pool) },
            check("delivery") { try await checkDelivery(pool) },
        ]
    }

    func concerns(_ other: String) -> Bool { app.map { Text.equal($0, other) } ?? true }

    /// Ends a check that needs the current schema.
    func requireMigrations(_ check: String, _ pool: PostgresPool) async throws {
        guard try await pool.missingMigrations() == nil else {
            throw Finding.skipped(in: check, "not checked before the migrations are applied")
        }
    }

    // MARK: Settings and keys

    func checkSettings() -> [Finding] {
        var found = warnings.map { Finding.warning(in: "settings", $0, advice: "fix or remove this setting") }
        if let problem = settings.proxyProblem {
            found.append(.problem(in: "settings", problem, advice: Settings.proxyAdvice))
        }
        let delivery = settings.kafka.deliveryTimeout
        if delivery * 3 > settings.workers.lease {
            found.append(
                .warning(
                    in: "settings",
                    "kafka.deliveryTimeout (\(delivery.words)) leaves little of workers.lease "
                        + "(\(settings.workers.lease.words)): batches are given back unpublished when Kafka is slow",
                    advice: "make the lease at least three times as long"))
        }
        if settings.healthPort == nil {
            found.append(
                .warning(
                    in: "settings", "health.port is not set: no probes and no /metrics in the roles ingest and workers",
                    advice: "set health.port, and health.host where others have to reach it"))
        }
        if found.isEmpty { found.append(.ok(in: "settings", "can be used")) }
        return found
    }

    func checkKeys() async throws -> [Finding] {
        guard let path = settings.api.keys else {
            throw Finding.skipped(in: "keys", "api.keys is not set: the HTTP API serves nothing under /v1")
        }
        let text: String
        do {
            text = try String(file: path, maximumBytes: TokenKeys.maximumBytes)
        } catch {
            throw Finding.problem(in: "keys", "api.keys: \(error)", advice: "let this user read the JWKS file")
        }
        // As the API reads it at its start.
        do throws(ModelError) {
            _ = try await TokenKeys(jwks: Array(text.utf8))
        } catch {
            throw Finding.problem(
                in: "keys", "api.keys: \(error)",
                advice: "correct the file: the API does not start with it, and keeps the old keys when it runs")
        }
        let keys = (try? JSONValue.parse(text))?["keys"]?.arrayValue ?? []
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        if keys.contains(where: { $0["kty"] == "oct" || $0["d"] != nil }),
            let permissions = (attributes?[.posixPermissions] as? NSNumber)?.intValue, permissions & 0o004 != 0
        {
            throw Finding.warning(
                in: "keys", "api.keys: everybody on this machine may read secret keys", advice: "chmod 640 the file")
        }
        return [.ok(in: "keys", "\(keys.count) in \(path)")]
    }
}

/// Result of a check; thrown by a check that ends with it.
struct Finding: Error, Hashable {
    enum Severity: Comparable, Sendable {
        case ok
        /// Not checked, or nothing to check.
        case skipped
        /// Works, but not as it should in production.
        case warning
        /// Does not work, or will not.
        case problem
    }

    /// `kafka.topics`
    let check: String
    let severity: Severity
    let message: String
    let advice: String?

    static func ok(in check: String, _ message: String) -> Finding {
        Finding(check: check, severity: .ok, message: message, advice: nil)
    }

    static func skipped(in check: String, _ message: String, advice: String? = nil) -> Finding {
        Finding(check: check, severity: .skipped, message: message, advice: advice)
    }

    static func warning(in check: String, _ message: String, advice: String) -> Finding {
        Finding(check: check, severity: .warning, message: message, advice: advice)
    }

    static func problem(in check: String, _ message: String, advice: String) -> Finding {
        Finding(check: check, severity: .problem, message: message, advice: advice)
    }

    /// The worst severity of each check, for operators of one of several apps.
    static func withoutDetails(_ findings: [Finding]) -> [Finding] {
        var worst: [Finding] = []
        for finding in findings {
            let message =
                switch finding.severity {
                case .ok: "works"
                case .skipped: "not checked"
                case .warning: "works, but not as it should"
                case .problem: "does not work"
                }
            let advice = finding.severity > .skipped ? "an administrator sees the reason with `freshet doctor`" : nil
            let reduced = Finding(
                check: finding.check, severity: finding.severity, message: message, advice: advice)
            if let index = worst.firstIndex(where: { $0.check == finding.check }) {
                if worst[index].severity < finding.severity { worst[index] = reduced }
            } else {
                worst.append(reduced)
            }
        }
        return worst
    }

    var json: JSONValue {
        [
            "check": .string(check), "severity": .string("\(severity)"), "message": .string(message),
            "advice": .text(advice),
        ]
    }

    /// One line, and a second one for advice.
    var text: String {
        let symbol =
            switch severity {
            case .ok: "ok      "
            case .skipped: "-       "
            case .warning: "warning "
            case .problem: "PROBLEM "
            }
        return "\(symbol) \(check): \(message)" + (advice.map { "\n          → \($0)" } ?? "")
    }
}

/// Runs of the doctor for the console: one at a time, since each opens connections of its own. Findings are reused for
/// a while.
actor DoctorRuns {
    private static let age = Duration.seconds(30)

    private let run: @Sendable (_ app: String) async -> [JSONValue]
    private var latest: [String: (findings: [JSONValue], at: ContinuousClock.Instant)] = [:]
    private var last: Task<[JSONValue], Never>?

    init(run: @escaping @Sendable (_ app: String) async -> [JSONValue]) {
        self.run = run
    }

    /// Findings that concern an app, at most half a minute old.
    func findings(of app: String) async -> [JSONValue] {
        let task = Task { [last] in
            _ = await last?.value
            return await fresh(app)
        }
        last = task
        return await task.value
    }

    private func fresh(_ app: String) async -> [JSONValue] {
        latest = latest.filter { $0.value.at.duration(to: .now) < Self.age }
        if let known = latest[app] { return known.findings }
        let found = await run(app)
        latest[app] = (found, .now)
        return found
    }
}

struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Checks everything that Freshet needs and gives advice.",
        discussion: """
            Run it where Freshet runs, with the same settings. It checks the settings, Kafka (topics, partitions, retention, \
            compaction, the right to read), PostgreSQL (version, migrations, settings, connections, indexes, vacuum), the \
            clocks, the keys of tokens, the audit's counter of the process on health.port, halted topics, sweeps that \
            wait, rows that are not deleted, the readiness that processes report, and every provider with a signed \
            request for no timelines.

            It changes nothing, so it cannot check rights to write. Every check has a time limit.

            Examples:
              freshet doctor --config freshet.yaml
              freshet doctor --json | jq '.findings[] | select(.severity == "problem")'

            Exit status: 0 no problems, though there may be warnings; 1 problems; 64 the command line is wrong; 78 the \
            settings cannot be read.
            """)

    @Flag(
        help:
            "Print one JSON document: {\"status\", \"findings\": [{\"check\", \"severity\", \"message\", \"advice\"}]}."
    )
    var json = false

    @Option(
        help: ArgumentHelp("Time limit of each check.", valueName: "seconds"), transform: OptionText.number(1...300))
    var timeLimit = 15

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        // Their warnings are findings.
        let loaded = try settings.read().checked()
        let findings = await Doctor(
            settings: loaded.settings, warnings: loaded.warnings, timeLimit: .seconds(timeLimit)
        ).findings()
        let worst = findings.map(\.severity).max() ?? .ok
        if json {
            Terminal.print(
                [
                    "status": .string("\(worst == .skipped ? .ok : worst)"),
                    "findings": .array(findings.map(\.json)),
                ] as JSONValue)
        } else {
            for finding in findings { Terminal.print(finding.text) }
            let problems = findings.count { $0.severity == .problem }
            let warnings = findings.count { $0.severity == .warning }
            Terminal.print("\(problems) problems, \(warnings) warnings")
        }
        if worst == .problem { throw ExitCode(CommandStatus.failure.rawValue) }
    }
}
