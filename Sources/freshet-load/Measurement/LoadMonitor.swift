// SPDX-License-Identifier: Apache-2.0

import Charts
import FreshetService
import PostgresClient
import Synchronization
import WidgetStore

/// Samples a scenario while it runs, for the report's charts and the progress line.
final class LoadMonitor: Sendable {
    private struct State {
        var start: ContinuousClock.Instant?
        var charts = LoadCharts()
        var last = (time: ContinuousClock.Instant.now, sent: 0, stores: 0)
        var lastWAL: (time: ContinuousClock.Instant, bytes: Int64)?
        /// What goes on, since when, and for how long if that is known.
        var phase = (name: "", start: ContinuousClock.now, length: Duration?.none)
        /// The phase that is shown in the charts, or was the last; the end is nil while it goes on.
        var span: (from: ContinuousClock.Instant, to: ContinuousClock.Instant?)?
    }

    private let environment: LoadTestEnvironment
    /// Processes of the service; this one where the service is part of it.
    private let processes: [Int32]
    private let latency: ReloadLatency
    private let sampling: ReloadMeasurement.Sampling
    private let state = Mutex(State())

    /// Number of samples at which each two are merged into one.
    private static let limit = 20_000

    init(
        _ environment: LoadTestEnvironment, services: [ChildProcess], latency: ReloadLatency,
        sampling: ReloadMeasurement.Sampling
    ) {
        self.environment = environment
        processes = services.isEmpty ? [ProcessUsage.own] : services.map(\.pid)
        self.latency = latency
        self.sampling = sampling
    }

    /// Shows what goes on from now on.
    func show(_ phase: String, lasting length: Duration? = nil) {
        state.withLock { $0.phase = (phase, .now, length) }
        Terminal.phase(phase)
    }

    /// Starts to keep samples; their times count from now.
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
            try? await Task.sleep(for: sampling.interval, tolerance: .milliseconds(20))
            await sample()
        }
    }

    private func sample() async {
        guard state.withLock({ $0.start }) != nil else { return }
        var values = await probe()
        let recent = latency.takeRecent()
        let now = ContinuousClock.now
        if recent.latency.samples > 0 {
            values[.p50] = recent.latency.p50
            values[.p99] = recent.latency.p99
            values[.max] = recent.latency.max
        }
        state.withLock { state in
            guard let start = state.start else { return }
            let span = max(0.001, state.last.time.duration(to: now) / .seconds(1))
            let timelines = Double(recent.stores - state.last.stores) / span
            values[.eventsPerSecond] = Double(recent.sent - state.last.sent) / span
            values[.timelinesPerSecond] = timelines
            state.last = (now, recent.sent, recent.stores)
            if state.charts.samples.count >= Self.limit {
                state.charts.samples = state.charts.thinned(to: Self.limit / 2)
            }
            state.charts.samples.append(LoadSample(seconds: start.duration(to: now) / .seconds(1), values))
            Terminal.progress(
                state.phase.name, since: state.phase.start, lasting: state.phase.length, rate: timelines,
                latency: recent.latency)
        }
    }

    /// Memory, tables and WAL; values that cannot be read now are left out.
    private func probe() async -> [LoadSample.Key: Double?] {
        let sizes = processes.compactMap { ProcessUsage.residentBytes(of: $0) }
        var values: [LoadSample.Key: Double?] = [
            .residentBytes: sizes.count == processes.count ? Double(sizes.reduce(0, +)) : nil
        ]
        guard sampling.includesTables else { return values }
        if let vitals = try? await environment.vitals() {
            let now = ContinuousClock.now
            values[.walBytesPerSecond] = state.withLock { state -> Double? in
                defer { state.lastWAL = (now, vitals.walBytes) }
                return state.lastWAL.map {
                    Double(vitals.walBytes - $0.bytes) / max(0.001, $0.time.duration(to: now) / .seconds(1))
                }
            }
        }
        if let row = try? await environment.pool.query(.tableSizes()).first(where: { $0.isTimeline }) {
            values[.stateTableBytes] = Double(row.tableBytes)
            values[.stateIndexBytes] = Double(row.indexBytes)
            values[.deadTuples] = Double(row.dead)
            values[.liveTuples] = Double(row.live)
        }
        return values
    }

    /// Shows a phase of the scenario as a span in the charts.
    func withSpan<Value>(_ label: String, _ body: () async throws -> Value) async throws -> Value {
        let from = ContinuousClock.now
        state.withLock { $0.span = (from, nil) }
        let value = try await body()
        state.withLock { state in
            let to = ContinuousClock.now
            state.span = (from, to)
            guard let start = state.start else { return }
            state.charts.spans.append(
                Chart.Span(
                    label: label, from: start.duration(to: from) / .seconds(1),
                    to: start.duration(to: to) / .seconds(1)))
        }
        return value
    }

    /// The last phase that is shown in the charts; its end is nil while it goes on.
    var span: (from: ContinuousClock.Instant, to: ContinuousClock.Instant?)? { state.withLock { $0.span } }

    /// The samples and spans so far.
    var charts: LoadCharts { state.withLock { $0.charts } }
}
