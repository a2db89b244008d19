/// Schedule of the checks whether the queue of fetched messages is empty although the log has more. Used on the poll
/// thread only.
struct Starvation {
    /// Longest wait for a broker's answer.
    static let limitMilliseconds: Int32 = 50

    /// Time for which a queue is empty before the first check.
    private static let firstWait: Int32 = 5
    /// Longest pause between checks: markers of transactions look like unread messages until the end of the log is read.
    private static let longestPause = Duration.seconds(5)

    private var isIdle = false
    private var pause = Duration.zero
    private var next: ContinuousClock.Instant?

    /// Time to wait for a message.
    func wait(atMost limit: Int32) -> Int32 {
        if isIdle { return limit }
        guard let next else { return min(limit, Self.firstWait) }
        let left = ContinuousClock.now.duration(to: next) / .milliseconds(1)
        return min(limit, max(1, Int32(min(left, 10_000).rounded(.up))))
    }

    /// Whether a check is due while no message comes.
    var mayAsk: Bool { next.map { $0 <= .now } ?? true }

    /// - Parameter isBehind: whether the log has more.
    mutating func asked(_ isBehind: Bool) {
        isIdle = !isBehind
        guard isBehind else {
            next = nil
            return
        }
        pause = pause == .zero ? .milliseconds(5) : min(pause * 2, Self.longestPause)
        next = .now + pause
    }

    /// Notes that a message has come.
    mutating func ended() {
        guard isIdle || next != nil else { return }
        self = Starvation()
    }
}
