import FreshetService
import PostgresClient
import ReloadIngest
import ReloadWorkers
import WidgetModel
import WidgetStore

extension Doctor {
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
            return [.ok(check, "no reload of everyone or of a large audience waits for long")]
        }
        return waiting.map { sweeps in
            let kind = sweeps.kind.map { "the kind \($0)" } ?? "all kinds"
            let count = sweeps.count < WaitingSweeps.limit ? "\(sweeps.count)" : "at least \(sweeps.count)"
            let (reason, advice) = Self.explain(sweeps)
            return .warning(
                check,
                "\(count) reloads of many timelines of \(kind) of \(sweeps.app) have not gone on for "
                    + "\(sweeps.silence.words): \(reason)",
                "\(advice); \(RunbookHeading.sweepsWait.reference)")
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
            found.warning(
                check, "there are \(rows.name) of \(oldest.words) ago, which are to be deleted after \(rows.age.words)",
                "look for \"cannot delete old \(rows.name)\" in the logs of ingest; \(RunbookHeading.oldRows.reference)"
            )
        }
        if found.isEmpty { found.ok(check, "old rows are deleted") }
        return found
    }

    /// Compares the history of the database with the one in which revisions are issued.
    func checkHistory(_ pool: PostgresPool) async throws -> [Finding] {
        let check = "history"
        try await requireMigrations(check, pool)
        return try await pool.query(.tokenHistory()).map { history in
            guard history.isKnown else {
                return .warning(
                    check,
                    "the database was restored, or a standby became the primary, and no worker has connected since",
                    "start the workers: revisions then begin above those of the lost history; "
                        + RunbookHeading.otherHistory.reference)
            }
            guard history.jumps > 0 else { return .ok(check, "no failover and no restore have been noticed") }
            return .ok(
                check,
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
