import Synchronization

/// Samples a scenario while it runs, for the report's charts and the progress line.
final class LoadMonitor: Sendable {
    private struct State {
        var start: ContinuousClock.Instant?
        var charts = LoadCharts()
        var last = (time: ContinuousClock.Instant.now, sent: 0, stores: 0)
        var openSpan: (label: String, from: Double)?
    }

    let progress: LoadProgress
    private let latency: ReloadLatency
    private let interval: Duration
    /// What is sampled besides.
    private let probe: @Sendable () async -> [LoadSample.Key: Double?]
    private let state = Mutex(State())

    /// Beyond this many samples every other one goes.
    private static let limit = 20_000

    init(
        latency: ReloadLatency, progress: LoadProgress, interval: Duration = .seconds(1),
        probe: @escaping @Sendable () async -> [LoadSample.Key: Double?] = { [:] }
    ) {
        self.latency = latency
        self.progress = progress
        self.interval = interval
        self.probe = probe
    }

    /// From here on samples are kept; their times count from now.
    func begin() {
        let recent = latency.takeRecent()
        state.withLock { state in
            state.start = .now
            state.charts = LoadCharts()
            state.last = (.now, recent.sent, recent.stores)
        }
    }

    /// Samples until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: interval, tolerance: .milliseconds(20))
            await sample()
        }
    }

    private func sample() async {
        guard state.withLock({ $0.start }) != nil else { return }
        let probed = await probe()
        let recent = latency.takeRecent()
        let now = ContinuousClock.now
        let rate = state.withLock { state -> Double in
            guard let start = state.start else { return 0 }
            let span = max(0.001, state.last.time.duration(to: now) / .seconds(1))
            let events = Double(recent.sent - state.last.sent) / span
            let timelines = Double(recent.stores - state.last.stores) / span
            state.last = (now, recent.sent, recent.stores)
            var values = probed
            values[.eventsPerSecond] = events
            values[.timelinesPerSecond] = timelines
            if recent.latency.samples > 0 {
                values[.p50] = recent.latency.p50
                values[.p99] = recent.latency.p99
                values[.max] = recent.latency.max
            }
            if state.charts.samples.count >= Self.limit {
                state.charts.samples = state.charts.thinned(to: Self.limit / 2)
            }
            state.charts.samples.append(LoadSample(seconds: start.duration(to: now) / .seconds(1), values))
            return timelines
        }
        progress.update(done: recent.stores, rate: rate, latency: recent.latency)
    }

    /// Marks what goes on from now on in the charts.
    func beginSpan(_ label: String) {
        state.withLock { state in
            guard let start = state.start else { return }
            state.openSpan = (label, start.duration(to: .now) / .seconds(1))
        }
    }

    func endSpan() {
        state.withLock { state in
            guard let start = state.start, let open = state.openSpan else { return }
            let now = start.duration(to: .now) / .seconds(1)
            state.charts.spans.append(LoadCharts.Span(label: open.label, from: open.from, to: now))
            state.openSpan = nil
        }
    }

    /// The samples and spans so far.
    var charts: LoadCharts { state.withLock { $0.charts } }
}
