import Synchronization

/// CPU time of an environment's parts. It is sampled all the time, so that the use between any two moments is known
/// afterwards.
final class UsageSampler: Sendable {
    /// CPU seconds of each part since its start; nil if unknown.
    struct Sample: Sendable {
        var time: ContinuousClock.Instant
        var service: Double?
        var database: Double?
        var broker: Double?
        var provider: Double?
        var tool: Double?
    }

    /// Interval of the samples, and precision of the figures. Each sample reads some small files of `/proc`.
    static let interval = Duration.milliseconds(50)
    /// Most samples, those of an hour; beyond it every other one is dropped.
    private static let limit = 72_000

    private let samples = Mutex<[Sample]>([])
    private let measure: @Sendable () -> Sample

    /// - Parameter measure: reads the counters now.
    init(_ measure: @escaping @Sendable () -> Sample) {
        self.measure = measure
    }

    /// Takes a sample now.
    func sample() {
        let sample = measure()
        samples.withLock { samples in
            if samples.count >= Self.limit {
                samples = samples.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
            }
            samples.append(sample)
        }
    }

    /// Takes samples until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            sample()
            try? await Task.sleep(for: Self.interval, tolerance: .milliseconds(5))
        }
    }

    /// Resources used between two moments: from the last sample before the first to the first one after the second.
    func usage(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Sample? {
        samples.withLock { samples in
            guard let first = samples.last(where: { $0.time <= start }) ?? samples.first,
                let last = samples.first(where: { $0.time >= end }) ?? samples.last
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
