/// When to look whether the queue of fetched messages is empty although there are more. Used on the poll thread only.
struct Starvation {
    /// Longest wait for a broker that is asked.
    static let limitMilliseconds: Int32 = 50

    /// A queue that has been empty for so long is looked at.
    private static let firstWait: Int32 = 5
    /// Offsets without a message (transaction markers) look like more to be read: they are asked about less and less.
    private static let longestPause = Duration.seconds(5)

    private var isIdle = false
    private var pause = Duration.zero
    private var next: ContinuousClock.Instant?

    /// How long to wait for a message.
    func wait(atMost limit: Int32) -> Int32 {
        if isIdle { return limit }
        guard let next else { return min(limit, Self.firstWait) }
        let left = ContinuousClock.now.duration(to: next) / .milliseconds(1)
        return min(limit, max(1, Int32(min(left, 10_000).rounded(.up))))
    }

    /// No message has come: whether to look now if there are more.
    var mayAsk: Bool { next.map { $0 <= .now } ?? true }

    /// - Parameter isBehind: there are more.
    mutating func asked(_ isBehind: Bool) {
        isIdle = !isBehind
        guard isBehind else {
            next = nil
            return
        }
        pause = pause == .zero ? .milliseconds(5) : min(pause * 2, Self.longestPause)
        next = .now + pause
    }

    /// A message has come.
    mutating func ended() {
        guard isIdle || next != nil else { return }
        self = Starvation()
    }
}
