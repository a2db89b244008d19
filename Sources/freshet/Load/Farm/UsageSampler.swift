import Synchronization

/// What the parts of a farm use over time. Sampled beside the work, so that the use between any two moments is known
/// without asking at just these moments.
final class UsageSampler: Sendable {
    /// Seconds on processors since the start of each part; nil where it is not known.
    struct Sample: Sendable {
        var time: ContinuousClock.Instant
        var service: Double?
        var database: Double?
        var broker: Double?
        var provider: Double?
        var tool: Double?
    }

    private struct State {
        var samples: [Sample] = []
        var peakResidentBytes: Int?
    }

    /// Also how exact the figures are; each sample reads some small files of `/proc`.
    static let interval = Duration.milliseconds(50)
    /// An hour of them; then every other one goes.
    private static let limit = 72_000

    private let state = Mutex(State())
    private let measure: @Sendable () -> (sample: Sample, peakResidentBytes: Int?)

    /// - Parameter measure: reads the counters now.
    init(_ measure: @escaping @Sendable () -> (sample: Sample, peakResidentBytes: Int?)) {
        self.measure = measure
    }

    /// Takes a sample now.
    func sample() {
        let (sample, peak) = measure()
        state.withLock { state in
            if state.samples.count >= Self.limit {
                state.samples = state.samples.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
            }
            state.samples.append(sample)
            if let peak { state.peakResidentBytes = max(peak, state.peakResidentBytes ?? 0) }
        }
    }

    /// Takes samples until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            sample()
            try? await Task.sleep(for: Self.interval, tolerance: .milliseconds(5))
        }
    }

    /// Most memory that the service had resident at a time, in bytes.
    var peakResidentBytes: Int? { state.withLock { $0.peakResidentBytes } }

    var samples: [Sample] { state.withLock { $0.samples } }

    /// What was used between two moments: from the last sample before the first to the first one after the second.
    func usage(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Sample? {
        state.withLock { state in
            guard let first = state.samples.last(where: { $0.time <= start }) ?? state.samples.first,
                let last = state.samples.first(where: { $0.time >= end }) ?? state.samples.last
            else { return nil }
            func difference(_ part: KeyPath<Sample, Double?>) -> Double? {
                guard let before = first[keyPath: part], let after = last[keyPath: part] else { return nil }
                return max(0, after - before)
            }
            return Sample(
                time: last.time, service: difference(\.service), database: difference(\.database),
                broker: difference(\.broker), provider: difference(\.provider), tool: difference(\.tool))
        }
    }
}
