import Synchronization

/// Limits messages that very many devices may cause: one a minute for each subject, with the number of suppressed ones.
final class LogLimiter: Sendable {
    private struct Subject {
        var loggedAt: ContinuousClock.Instant
        var suppressed = 0
    }

    private static let interval = Duration.seconds(60)
    /// Most subjects that are remembered; beyond them all are forgotten.
    private static let limit = 1_000

    private let subjects = Mutex<[String: Subject]>([:])

    /// Number of messages that were suppressed since the last one; nil: this one is to be suppressed.
    func admit(_ subject: String, at time: ContinuousClock.Instant = .now) -> Int? {
        subjects.withLock { subjects in
            if let last = subjects[subject], last.loggedAt.duration(to: time) < Self.interval {
                subjects[subject]?.suppressed += 1
                return nil
            }
            if subjects.count >= Self.limit { subjects = [:] }
            let suppressed = subjects[subject]?.suppressed ?? 0
            subjects[subject] = Subject(loggedAt: time)
            return suppressed
        }
    }
}
