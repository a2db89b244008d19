// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import FreshetService
import NIOCore
import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetModel
import WidgetStore

extension Doctor {
    private static let oldestServer = 150_000

    func checkPostgres(_ pool: PostgresPool) async throws -> [Finding] {
        do throws(PostgresError) {
            return try await postgres(pool)
        } catch {
            if error.kind == .configuration || error.kind == .migration {
                throw Finding.problem(in: "postgres", error.message, advice: error.hint ?? "correct postgres.url")
            }
            throw Finding.problem(
                in: "postgres", error.message,
                advice: "check that the server runs and can be reached from here, and that postgres.url is right")
        }
    }

    private func postgres(_ pool: PostgresPool) async throws(PostgresError) -> [Finding] {
        let rows = try await pool.query(.serverSettings())
        let values = Dictionary(rows.map { ($0.name, $0) }, uniquingKeysWith: { first, _ in first })
        var found = Self.judge(values)
        found += try await connections(values, pool)
        if try await pool.query(.takesWrites()) != [true] {
            found.append(
                .problem(
                    in: "postgres", "the server takes no writes: a standby, or read-only",
                    advice: "name the primary in postgres.url, or all hosts: Freshet uses the one that takes writes"))
        }
        if let problem = try await pool.missingMigrations() {
            found.append(.problem(in: "postgres.migrations", problem, advice: "run `freshet migrate`"))
            return found
        }
        found.append(.ok(in: "postgres.migrations", "all \(PostgresMigration.all.count) are applied"))
        found += try await tables(pool)
        return found
    }

    /// Findings for the server's settings. Pure.
    static func judge(_ values: [String: ServerSetting]) -> [Finding] {
        func value(_ name: String) -> String { values[name]?.setting ?? "" }
        var found: [Finding] = []
        func expect(_ name: String, is expected: String, _ severity: Finding.Severity, _ why: String) {
            guard let row = values[name], row.setting != expected else { return }
            found.append(
                Finding(
                    check: "postgres.settings", severity: severity, message: "\(name) is \(row.setting): \(why)",
                    advice: "set \(name) = \(expected)"))
        }
        if let version = Int(value("server_version_num")), version < oldestServer {
            found.append(
                .problem(
                    in: "postgres", "the server is version \(version / 10_000); expected 15 or later",
                    advice: "upgrade PostgreSQL"))
        } else if let version = Int(value("server_version_num")) {
            found.append(.ok(in: "postgres", "version \(version / 10_000).\(version % 10_000) answers"))
        }
        expect("fsync", is: "on", .problem, "a crash of the machine may destroy the database")
        expect("full_page_writes", is: "on", .problem, "a crash of the machine may tear pages")
        expect("autovacuum", is: "on", .problem, "dead rows are never removed, and claims become slow")
        expect("track_counts", is: "on", .problem, "autovacuum does not know what to do without it")
        if value("synchronous_commit") == "off" {
            found.append(
                .warning(
                    in: "postgres.settings",
                    "synchronous_commit is off: a crash loses the last moments. Positions go back with them, so no event "
                        + "is lost, but what was published may be newer than what is stored",
                    advice: "set synchronous_commit = on"))
        }
        if let buffers = Int(value("shared_buffers")), buffers * 8_192 < 256 << 20 {
            found.append(
                .warning(
                    in: "postgres.settings", "shared_buffers are \(buffers * 8 / 1_024) MiB",
                    advice: "give PostgreSQL a quarter of the memory: the hot table and its indexes should fit"))
        }
        if !found.contains(where: { $0.check == "postgres.settings" }) {
            found.append(.ok(in: "postgres.settings", "are as recommended"))
        }
        return found
    }

    private func connections(
        _ values: [String: ServerSetting], _ pool: PostgresPool
    ) async throws(PostgresError) -> [Finding] {
        guard let sessions = try await pool.query(.serverSessions()).first,
            let maximum = values["max_connections"].flatMap({ Int($0.setting) })
        else { return [] }
        let reserved = values["superuser_reserved_connections"].flatMap { Int($0.setting) } ?? 3
        let free = maximum - reserved - Int(sessions.connections)
        // One more connection listens for notifications.
        let wanted = settings.postgres.maximumConnections + 1
        var found: [Finding] = []
        if free < wanted {
            found.append(
                .problem(
                    in: "postgres.connections",
                    "\(free) of \(maximum) connections are free; one process needs up to \(wanted)",
                    advice:
                        "raise max_connections, or lower postgres.maximumConnections: all processes together must fit"))
        } else {
            found.append(
                .ok(
                    in: "postgres.connections",
                    "\(free) of \(maximum) are free: room for \(free / wanted) more processes like this one"))
        }
        if !sessions.seesOthers {
            found.append(
                .skipped(
                    in: "postgres.connections", "this role does not see the transactions of other roles",
                    advice: "GRANT pg_read_all_stats to it, so that metrics and doctor see what blocks vacuum"))
        }
        if sessions.isSuperuser {
            found.append(
                .warning(
                    in: "postgres.role", "Freshet would run as a superuser",
                    advice: "create a role that can only read and write Freshet's tables"))
        }
        return found
    }

    private func tables(_ pool: PostgresPool) async throws(PostgresError) -> [Finding] {
        var found: [Finding] = []
        for index in try await pool.query(.oddIndexes()) {
            found.append(
                index.isValid
                    ? .warning(
                        in: "postgres.indexes",
                        "\(index.table) has a further index \(index.index): every claim has to write it",
                        advice: "DROP INDEX CONCURRENTLY \(index.index)")
                    : .problem(
                        in: "postgres.indexes", "the index \(index.index) of \(index.table) is not valid",
                        advice: "REINDEX INDEX CONCURRENTLY \(index.index)"))
        }
        for table in try await pool.query(.tableSizes()) where table.dead > 1_000_000 && table.dead > table.live / 2 {
            found.append(
                .warning(
                    in: "postgres.vacuum", "\(table.table) has \(table.dead) dead rows and \(table.live) live ones",
                    advice: "find what blocks vacuum (an old transaction?), then VACUUM \(table.table)"))
        }
        if let oldest = try await pool.query(.oldestSnapshot()).first,
            oldest.transactions > 1_000_000 || oldest.seconds > 900
        {
            found.append(
                .warning(
                    in: "postgres.vacuum",
                    "the oldest transaction began \(Duration.seconds(oldest.seconds).words) ago, and row versions are kept "
                        + "for \(oldest.transactions) transactions",
                    advice:
                        "find it in pg_stat_activity (ORDER BY xact_start), in pg_replication_slots or in pg_prepared_xacts, "
                        + "and end it"))
        }
        if found.isEmpty { found.append(.ok(in: "postgres.tables", "indexes are valid, and vacuum keeps up")) }
        return found
    }

    // MARK: Clock

    func checkClock(_ pool: PostgresPool) async throws -> [Finding] {
        // The first query opens the connection.
        _ = try await pool.query(.databaseTime())
        let before = Timestamp.now()
        guard let database = try await pool.query(.databaseTime()).first else { return [] }
        let way = Timestamp.now() - before
        return [Self.judge(skew: database - (before + way / 2), within: way / 2)]
    }

    /// - Parameters:
    ///   - skew: lead of the database's clock.
    ///   - error: error of the skew.
    static func judge(skew: Duration, within error: Duration) -> Finding {
        let size = skew < .zero ? .zero - skew : skew
        let what = "this machine is \(size.words) \(skew < .zero ? "ahead of" : "behind") PostgreSQL"
        let advice = "run chrony or another NTP client on both"
        if size > .seconds(30) + error {
            return .problem(
                in: "clock", what + ": providers refuse signatures, and events get wrong times", advice: advice)
        }
        if size > .seconds(1) + error { return .warning(in: "clock", what, advice: advice) }
        return .ok(in: "clock", "agrees with PostgreSQL's")
    }

    // MARK: Ingest

    func checkIngest(_ pool: PostgresPool) async throws -> [Finding] {
        try await requireMigrations("ingest", pool)
        var found: [Finding] = []
        for halt in try await pool.query(.listHalts()) {
            if app == nil {
                found.append(.problem(in: "ingest", "\(halt)", advice: "fix the producers, then `\(halt.command)`"))
            } else {
                // The halt names other apps.
                found.append(
                    .problem(
                        in: "ingest", "the topic \(halt.topic) is halted", advice: "an administrator must resume it"))
            }
        }
        for diversion in try await pool.query(.listDiversions(countLimit: 0)) where concerns(diversion.app) {
            let advice = "fix its producer, then `freshet dead-letters resume --app \(diversion.app)`"
            if diversion.fullAt == nil {
                found.append(
                    .warning(
                        in: "ingest", "the events of the app \(diversion.app) wait in the database", advice: advice))
            } else {
                found.append(
                    .problem(
                        in: "ingest", "events of the app \(diversion.app) are dropped, since too many wait",
                        advice: advice))
            }
        }
        for topic in try await pool.query(.listFullTopics()) where app == nil {
            found.append(
                .problem(
                    in: "ingest", "events of unregistered apps on the topic \(topic) are dropped, since too many wait",
                    advice: "register the apps and replay their events, or "
                        + "`freshet dead-letters discard --all-apps --cause unknownApp`"))
        }
        let partitions = try await pool.query(.listPositions()).count
        if found.isEmpty {
            found.append(.ok(in: "ingest", "no topic is halted; positions of \(partitions) partitions are kept"))
        }
        return found
    }

    // MARK: Audit

    /// Reads the audit's counter from the process on health.port.
    func checkAudit() async throws -> [Finding] {
        guard let port = settings.healthPort, port != 0, let base = try? HealthCommand.address(in: settings) else {
            throw Finding.skipped(in: "audit", "not read: health.port is not set")
        }
        do {
            let response = try await HTTPClient.shared.execute(
                HTTPClientRequest(url: base + "/metrics"), timeout: TimeAmount(timeLimit / 3))
            let body = try await response.body.collect(upTo: 16 << 20)
            return [Self.judge(metrics: String(buffer: body))]
        } catch {
            throw Finding.skipped(in: "audit", "not read: no process answers on \(base)")
        }
    }

    /// Finding for the audit's counter in a page of metrics.
    static func judge(metrics page: String) -> Finding {
        let name = MetricRegistry.catalogue.auditAppointed.definition.name
        let values = page.split(separator: "\n").filter { $0.hasPrefix(name + " ") || $0.hasPrefix(name + "{") }
            .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }
        guard !values.isEmpty else {
            return .skipped(in: "audit", "the process on health.port runs no workers: run doctor beside one that does")
        }
        let appointed = Int(values.reduce(0, +))
        guard appointed > 0 else { return .ok(in: "audit", "every timeline with something to do had its appointment") }
        return .problem(
            in: "audit",
            "\(appointed) timelines had something to do and no work list: the audit has appointed them anew",
            advice: "this is a defect of Freshet: see FreshetAuditAppointed in deploy/runbook.md, and report it")
    }

    /// Checks the readiness that the processes have reported, and that the roles which every installation needs run.
    func checkProcesses(_ pool: PostgresPool) async throws -> [Finding] {
        let check = "processes"
        try await requireMigrations(check, pool)
        let processes = try await pool.query(.listProcesses())
        guard !processes.isEmpty else { throw Finding.skipped(in: check, "no process reports its readiness") }
        var found = processes.obstacles().map { found in
            let text = "\(found.obstacle.name) (\(found.processWords)): \(found.obstacle.reason)"
            guard !found.obstacle.isSlow else {
                return Finding.warning(in: check, text, advice: "see what its server and the way to it are busy with")
            }
            return .problem(
                in: check, text,
                advice: found.processes == 0
                    ? "start one with `freshet run --role \(found.role)`"
                    : "see its log, and /health/ready on its health.port")
        }
        if found.isEmpty { found.append(.ok(in: check, "all \(processes.count) that report are ready")) }
        return found
    }

    /// Checks that a worker of the installation audits: a lost work list is found by nobody else.
    func checkAuditProgress(_ pool: PostgresPool) async throws -> [Finding] {
        let check = "audit.progress"
        try await requireMigrations(check, pool)
        guard try await pool.query(.otherWorkers(than: nil)).first == true else {
            throw Finding.skipped(in: check, "no worker is registered")
        }
        return try await pool.query(.auditProgress()).map { Self.judge(silence: $0.silence, unfinished: $0.unfinished) }
    }

    private static func judge(silence: Duration, unfinished: Duration) -> Finding {
        let check = "audit.progress"
        if silence > .seconds(1_800) {
            return .warning(
                in: check, "the audit of work lists has not advanced for \(silence.words)",
                advice:
                    "look for \"cannot audit\" in the logs of the workers: its statements fail or exceed their time limit"
            )
        }
        // A pass reads 100 million timelines in less.
        if unfinished > .seconds(86_400) {
            return .warning(
                in: check, "no whole pass of the audit of work lists has ended for \(unfinished.words)",
                advice:
                    "look for \"cannot audit\" and for restarts in the logs of the workers: a pass is whole only if one "
                    + "process does all of it")
        }
        return .ok(in: check, "the audit of work lists advances")
    }

    /// Time without progress after which sweeps are reported.
    private static let sweepPatience = Duration.seconds(600)
    private static let maximumSweeps = 20
    /// Time beyond the age of their deletion after which old rows are reported.
    private static let retentionPatience = Duration.seconds(3_600)

    /// Looks for reloads of everyone, of a match or of a very large audience that do not go on.
    func checkSweeps(_ pool: PostgresPool) async throws -> [Finding] {
        let check = "sweeps"
        try await requireMigrations(check, pool)
        let waiting = try await pool.query(
            .waitingSweeps(
                app: app, silence: Self.sweepPatience, maximumLists: WorkerConfiguration().maximumBulkLists,
                limit: Self.maximumSweeps))
        guard !waiting.isEmpty else {
            return [.ok(in: check, "no reload of everyone or of a large audience waits for long")]
        }
        return waiting.map { sweeps in
            let kind = sweeps.kind.map { "the kind \($0)" } ?? "all kinds"
            let count = sweeps.count < WaitingSweeps.limit ? "\(sweeps.count)" : "at least \(sweeps.count)"
            let (reason, advice) = Self.explain(sweeps)
            return .warning(
                in: check,
                "\(count) reloads of many timelines of \(kind) of \(sweeps.app) have not gone on for "
                    + "\(sweeps.silence.words): \(reason)",
                advice: "\(advice); \(RunbookHeading.sweepsWait.reference)")
        }
    }

    private static func explain(_ sweeps: WaitingSweeps) -> (reason: String, advice: String) {
        let kind = sweeps.kind.map { " --kind \($0)" } ?? ""
        switch sweeps.obstacle {
        case .appPaused: return ("the app is paused", "`freshet resume --app \(sweeps.app)`")
        case .kindPaused: return ("the kind is paused", "`freshet resume --app \(sweeps.app)\(kind)`")
        case .noRoom:
            return ("too many of its timelines wait to be fetched", "`freshet work --app \(sweeps.app)`")
        case .fails: return ("chunks fail", "look for \"cannot sweep\" in the logs of workers")
        case nil:
            return (
                "nothing holds them up now",
                "they go on within a minute after a pause; if not, run workers, and look for \"cannot sweep\" in their logs"
            )
        }
    }

    /// Looks for old rows that are not deleted.
    func checkRetention(_ pool: PostgresPool) async throws -> [Finding] {
        let check = "retention"
        try await requireMigrations(check, pool)
        var found: [Finding] = []
        let sorts = RowRetention.Rows.ofIngest(
            deadLetters: settings.ingest.retention, topics: settings.topics.retention)
        for rows in sorts {
            guard let oldest = try await pool.query(rows.oldest).first, oldest > rows.age + Self.retentionPatience
            else {
                continue
            }
            found.append(
                .warning(
                    in: check,
                    "there are \(rows.name) of \(oldest.words) ago, which are to be deleted after \(rows.age.words)",
                    advice:
                        "look for \"cannot delete old \(rows.name)\" in the logs of ingest; \(RunbookHeading.oldRows.reference)"
                ))
        }
        if found.isEmpty { found.append(.ok(in: check, "old rows are deleted")) }
        return found
    }

    /// Compares the history of the database with the one in which revisions are issued.
    func checkHistory(_ pool: PostgresPool) async throws -> [Finding] {
        let check = "history"
        try await requireMigrations(check, pool)
        return try await pool.query(.tokenHistory()).map { history in
            guard history.isKnown else {
                return .warning(
                    in: check,
                    "the database was restored, or a standby became the primary, and no worker has connected since",
                    advice: "start the workers: revisions then begin above those of the lost history; "
                        + RunbookHeading.otherHistory.reference)
            }
            guard history.jumps > 0 else { return .ok(in: check, "no failover and no restore have been noticed") }
            return .ok(
                in: check,
                "failovers and restores until now: \(history.jumps); revisions are above those of the lost history")
        }
    }
}

/// Headings of the runbook for findings without an alert.
enum RunbookHeading: String, CaseIterable {
    case sweepsWait = "Sweeps wait"
    case oldRows = "Old rows stay"
    case otherHistory = "The database has another history"

    /// Reference for advice.
    var reference: String { "see \"\(rawValue)\" in deploy/runbook.md" }
}
