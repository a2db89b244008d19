import Foundation
import SampleProvider

/// Change of a stream's rate over time. All profiles have the same mean.
enum RateProfile: Sendable, Equatable {
    /// Events at even distances.
    case steady
    /// In every period one burst, at a place that follows from the seed.
    case bursty(Bursts)
    /// A day, compressed into this many seconds, that begins at night: the rate is a cosine between a fifth of the mean
    /// and nine fifths of it at noon.
    case diurnal(day: Double)

    struct Bursts: Sendable, Equatable {
        /// Length of a period in seconds.
        var period = 10.0
        /// Length of a burst in seconds.
        var length = 1.0
        /// Ratio of a burst's rate to the mean. The other events are spread over the rest of the period.
        var factor = 5.5

        /// Ratio of the rate outside of bursts to the mean.
        var quiet: Double { (period - length * factor) / (period - length) }
    }

    /// The swing of a day about its mean.
    static let swing = 0.8
}

/// Arrival times of a stream's events, in seconds from its start: event n arrives when n events are expected.
struct ArrivalTimes: Sendable {
    let profile: RateProfile
    /// Mean, events a second.
    let rate: Double
    let seed: UInt64

    private var index = 0
    private var period = -1
    private var burstStart = 0.0

    init(profile: RateProfile, rate: Double, seed: UInt64) {
        self.profile = profile
        self.rate = rate
        self.seed = seed
    }

    /// The arrival of the next event.
    mutating func next() -> Double {
        // Arrival at a steady rate.
        let steady = Double(index) / rate
        index += 1
        switch profile {
        case .steady: return steady
        case .bursty(let bursts): return burst(steady, bursts)
        case .diurnal(let day): return Self.ofDay(steady, day: day)
        }
    }

    private mutating func burst(_ steady: Double, _ bursts: RateProfile.Bursts) -> Double {
        let current = Int(steady / bursts.period)
        if current != period {
            period = current
            var random = SampleRandom(seed: seed ^ (UInt64(truncatingIfNeeded: current) &* 0xD134_2543_DE82_EF95))
            burstStart = random.unit() * (bursts.period - bursts.length)
        }
        let start = Double(current) * bursts.period
        let (work, quiet) = (steady - start, bursts.quiet)
        let before = quiet * burstStart
        let within = before + bursts.factor * bursts.length
        if work < before { return start + work / quiet }
        if work < within { return start + burstStart + (work - before) / bursts.factor }
        return start + burstStart + bursts.length + (work - within) / quiet
    }

    /// Kepler's equation, E − e sin E = M: its left side is the cosine's integral. Newton's method from π converges for
    /// every M from 0 to 2π.
    private static func ofDay(_ steady: Double, day: Double) -> Double {
        let days = (steady / day).rounded(.down)
        let mean = (steady / day - days) * 2 * .pi
        var angle = Double.pi
        for _ in 0..<50 {
            let step = (angle - RateProfile.swing * sin(angle) - mean) / (1 - RateProfile.swing * cos(angle))
            angle -= step
            if abs(step) < 1e-12 { break }
        }
        return (days + min(max(angle, 0), 2 * .pi) / (2 * .pi)) * day
    }
}
