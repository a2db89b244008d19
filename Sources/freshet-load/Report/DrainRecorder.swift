import FreshetService

/// Progress through a backlog over time, for the chart and the progress line.
struct DrainRecorder: Sendable {
    /// Number of applied events at the end.
    let goal: Int
    private let phase: String
    private(set) var samples: [LoadSample] = []

    private let start = ContinuousClock.now
    private var begin: Int?
    private var last: (time: ContinuousClock.Instant, applied: Int, fetched: Int?)?

    init(goal: Int, phase: String = "draining") {
        self.goal = goal
        self.phase = phase
    }

    /// - Parameter fetched: number of fetched timelines; nil if none are fetched.
    mutating func record(applied: Int, fetched: Int?, at now: ContinuousClock.Instant = .now) {
        defer { last = (now, applied, fetched) }
        if begin == nil { begin = applied }
        guard let last else { return }
        let span = max(0.001, last.time.duration(to: now) / .seconds(1))
        let events = Double(applied - last.applied) / span
        let timelines = fetched.map { Double($0 - (last.fetched ?? 0)) / span }
        samples.append(
            LoadSample(
                seconds: start.duration(to: now) / .seconds(1),
                [.eventsPerSecond: events, .timelinesPerSecond: timelines]))
        let (done, all) = (applied - (begin ?? 0), goal - (begin ?? 0))
        guard all > 0 else { return }
        let elapsed = start.duration(to: now) / .seconds(1)
        let line = ProgressLine(
            phase: phase, share: Double(done) / Double(all), rate: timelines ?? events,
            secondsLeft: done > 0 ? elapsed / Double(done) * Double(all - done) : nil, latency: nil)
        Terminal.progress(line.text(width: LoadProgress.width))
    }
}
