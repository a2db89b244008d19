/// Notices that something makes no progress any more.
struct Stall<Progress: Equatable> {
    private let limit: Duration
    private var last: Progress?
    private var since = ContinuousClock.now

    init(after limit: Duration = .seconds(60)) {
        self.limit = limit
    }

    /// Whether the progress has been the same for the limit.
    mutating func isReached(at progress: Progress) -> Bool {
        if progress != last { (last, since) = (progress, .now) }
        return since.duration(to: .now) >= limit
    }
}
