import Foundation

/// How long something takes, in seconds.
enum ServiceTime: Hashable, Sendable {
    case fixed(Double)
    /// Exponentially distributed, with this mean.
    case exponential(Double)

    var mean: Double {
        switch self {
        case .fixed(let mean), .exponential(let mean): mean
        }
    }

    func sample(_ random: inout DemoRandom) -> Double {
        switch self {
        case .fixed(let mean): mean
        // Of a number that is evenly distributed over (0, 1].
        case .exponential(let mean): -mean * log((Double(random.next() >> 11) + 1) / Double(1 << 53 as UInt64))
        }
    }
}

/// Stations with a number of servers each, and one first-come queue; jobs arrive as a Poisson stream and visit them in the
/// order of a route, some more than once.
///
/// A discrete-event simulation: nothing but its seed decides what comes of it.
struct QueueNetwork: Sendable {
    struct Station: Hashable, Sendable {
        var name: String
        var servers: Int
    }

    struct Visit: Hashable, Sendable {
        /// Index of the station.
        var station: Int
        var service: ServiceTime
    }

    var stations: [Station]
    var route: [Visit]
    /// Jobs a second.
    var arrivals: Double

    /// What was found at one station.
    struct Load: Hashable, Sendable {
        var name: String
        /// The part of its servers that was busy, from 0 to 1.
        var utilisation: Double
        /// Seconds from coming to being served, on average over all visits.
        var meanWait: Double
        /// The longest queue.
        var longestQueue: Int
    }

    struct Outcome: Hashable, Sendable {
        var loads: [Load]
        /// Seconds from arrival to the end of the route.
        var p50: Double
        var p99: Double
        var mean: Double
    }

    /// Jobs a second at which the first station is busy all the time, and which one that is.
    var limit: (arrivals: Double, station: Int)? {
        let demands = stations.indices.map { station in
            route.filter { $0.station == station }.reduce(0) { $0 + $1.service.mean }
        }
        return stations.indices.filter { demands[$0] > 0 }
            .map { (arrivals: Double(stations[$0].servers) / demands[$0], station: $0) }
            .min { $0.arrivals < $1.arrivals }
    }

    /// - Parameters:
    ///   - jobs: how many are counted.
    ///   - warmUp: how many go before them, so that the queues are as they are in the long run.
    func simulate(jobs: Int, warmUp: Int? = nil, seed: UInt64) -> Outcome {
        var run = QueueRun(network: self, jobs: jobs, warmUp: warmUp ?? jobs / 10, seed: seed)
        return run.outcome()
    }
}
