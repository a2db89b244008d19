// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import JSON
import Randomness
import SampleProvider
import WidgetEvents
import WidgetModel

/// One event of a synthetic stream.
struct StreamEvent: Sendable, Equatable {
    /// Its place in the stream, from 0.
    var index: Int
    /// From the start of the stream.
    var arrival: Duration
    var reason: ReloadReason
    var audience: StreamAudience
    /// The widget that it is about: it names the kind and, but for everyone, the person.
    var widget: Int
}

/// Parameters of a stream.
struct StreamPlan: Sendable, Equatable {
    var world: LoadWorld
    var distribution = StreamDistribution.uniform
    var audiences = WeightedChoice(StreamAudience.user)
    var reasons = WeightedChoice(ReloadReason.push)
    /// Mean, events a second.
    var rate = 1_000.0
    var seed: UInt64 = 1
}

/// An endless stream of reload requests. The plan, with its seed, determines every event and its time.
///
/// Under Zipf's law the people's popularity falls with their index, and so does that of a person's widgets.
struct SyntheticStream: Sendable, Sequence, IteratorProtocol {
    let plan: StreamPlan

    private var random: SeededGenerator
    private var arrivals: ArrivalTimes
    private let widgets: PopularWidgets
    private var index = 0
    private var peeked: StreamEvent?

    init(_ plan: StreamPlan) {
        self.plan = plan
        random = SeededGenerator(seed: plan.seed)
        arrivals = ArrivalTimes(profile: plan.distribution.profile, rate: plan.rate, seed: plan.seed)
        widgets = PopularWidgets(of: plan.world, exponent: plan.distribution.exponent)
    }

    /// The event that comes next.
    mutating func peek() -> StreamEvent? {
        if peeked == nil { peeked = next() }
        return peeked
    }

    mutating func next() -> StreamEvent? {
        if let event = peeked {
            peeked = nil
            return event
        }
        let widget = widgets.next(using: &random)
        let audience = plan.audiences.value(at: random.unit())
        let reason = plan.reasons.value(at: random.unit())
        defer { index += 1 }
        return StreamEvent(
            index: index, arrival: .nanoseconds(Int64((arrivals.next() * 1e9).rounded())), reason: reason,
            audience: audience, widget: widget)
    }
}

extension StreamEvent {
    /// The event as a service of the app publishes it.
    func event(in world: LoadWorld) -> FreshetEvent {
        let person = world.person(of: widget)
        let target: Audience =
            switch audience {
            case .user: .user("u\(person)")
            case .device: .device("d\(person)")
            case .widget: .widget("w\(widget)")
            case .everyone: .everyone
            }
        return FreshetEvent(
            ReloadRequest(
                app: world.app, audience: target, kinds: .kinds([world.kind(of: widget)]), reason: reason))
    }

    /// The partition key: the person, so that all of a person's events keep their order; the app for everyone.
    func key(in world: LoadWorld) -> String {
        audience == .everyone ? world.app : "u\(world.person(of: widget))"
    }
}

extension StreamPlan {
    /// Names of audiences and reasons on the command line.
    static let audiences: KeyValuePairs<String, StreamAudience> = [
        "user": .user, "device": .device, "widget": .widget, "everyone": .everyone,
    ]
    static let reasons: KeyValuePairs<String, ReloadReason> = [
        "push": .push, "foreground": .foreground, "background": .background,
    ]

    /// Members of a report that describe the stream.
    var members: [(key: String, value: JSONValue)] {
        [
            ("ratePerSecond", .rounded(rate)), ("distribution", .string(distribution.description)),
            ("seed", .number(JSONNumber("\(seed)") ?? JSONNumber(0))),
        ]
    }
}

/// Popularity of people and kinds, and profile of the rate: `uniform`, `zipf:1.1`, `bursty`, `diurnal`, or one of the
/// first two with one of the others, such as `zipf+diurnal`.
struct StreamDistribution: Sendable, Equatable {
    /// Exponent of Zipf's law; nil for equal popularity.
    var exponent: Double?
    var profile = RateProfile.steady

    static let uniform = StreamDistribution()

    static let form =
        "uniform, zipf, zipf:s (s from 0.1 to 5), bursty, diurnal, or two with +, such as zipf:1.2+diurnal"

    /// - Parameter day: length of a compressed day in seconds.
    static func parse(_ text: String, day: Double) throws(ValidationError) -> StreamDistribution {
        var distribution = StreamDistribution()
        var (hasRanks, hasProfile) = (false, false)
        for part in text.split(separator: "+", omittingEmptySubsequences: false) {
            let isRanks = part == "uniform" || part.hasPrefix("zipf")
            guard isRanks ? !hasRanks : !hasProfile else {
                throw ValidationError("\(text): expected \(form)")
            }
            if isRanks { hasRanks = true } else { hasProfile = true }
            switch part {
            case "uniform": break
            case "zipf": distribution.exponent = 1
            case "bursty": distribution.profile = .bursty
            case "diurnal": distribution.profile = .diurnal(day: day)
            default:
                guard part.hasPrefix("zipf:"), let exponent = Double(part.dropFirst(5)),
                    (0.1...5).contains(exponent)
                else { throw ValidationError("\(text): expected \(form)") }
                distribution.exponent = exponent
            }
        }
        return distribution
    }

    var description: String {
        let ranks = exponent.map { "zipf:\($0)" }
        let profile: String? =
            switch profile {
            case .steady: nil
            case .bursty: "bursty"
            case .diurnal: "diurnal"
            }
        let parts = [ranks, profile].compactMap { $0 }
        return parts.isEmpty ? "uniform" : parts.joined(separator: "+")
    }
}

/// Audience of an event of a stream.
enum StreamAudience: Sendable {
    case user, device, widget, everyone
}

/// A choice among a few values with weights.
struct WeightedChoice<Value: Sendable & Equatable>: Sendable, Equatable {
    let weights: [(value: Value, upTo: Double)]

    static func == (left: Self, right: Self) -> Bool {
        left.weights.elementsEqual(right.weights) { $0.value == $1.value && $0.upTo == $1.upTo }
    }

    /// Always the one.
    init(_ value: Value) {
        weights = [(value, 1)]
    }

    /// - Parameters:
    ///   - text: such as `user=90,device=8,widget=2`; a name alone weighs 1.
    ///   - values: by their names.
    init(_ text: String, of values: KeyValuePairs<String, Value>) throws(ValidationError) {
        let names = values.map(\.key).joined(separator: ", ")
        func problem(_ what: String) -> ValidationError {
            ValidationError(
                "\(text): \(what); expected weights of \(names), such as "
                    + values.map { "\($0.key)=1" }.joined(separator: ","))
        }
        var found: [(value: Value, weight: Double)] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let value = values.first(where: { $0.key == sides[0] })?.value else {
                throw problem("unknown name \(sides[0])")
            }
            guard let weight = sides.count == 1 ? 1 : Double(sides[1]), weight.isFinite, weight >= 0 else {
                throw problem("the weight of \(sides[0]) is no number from 0")
            }
            guard !found.contains(where: { $0.value == value }) else { throw problem("\(sides[0]) is given twice") }
            found.append((value, weight))
        }
        let sum = found.reduce(0) { $0 + $1.weight }
        guard sum > 0, sum.isFinite else { throw problem("all weights are 0") }
        var upTo = 0.0
        weights = found.filter { $0.weight > 0 }.map { value, weight in
            upTo += weight / sum
            return (value, upTo)
        }
    }

    /// - Parameter unit: at least 0 and under 1.
    func value(at unit: Double) -> Value {
        for (value, upTo) in weights.dropLast() where unit < upTo { return value }
        return weights[weights.count - 1].value
    }

    func contains(_ value: Value) -> Bool { weights.contains { $0.value == value } }
}

/// Change of a stream's rate over time. All profiles have the same mean.
enum RateProfile: Sendable, Equatable {
    /// Events at even distances.
    case steady
    /// In every period one burst, at a place that follows from the seed.
    case bursty
    /// A day, compressed into this many seconds, that begins at night: the rate is a cosine between a fifth of the mean
    /// and nine fifths of it at noon.
    case diurnal(day: Double)

    /// Bursts: lengths of a period and of a burst in seconds, and the ratio of a burst's rate to the mean. The other
    /// events are spread over the rest of the period.
    static let bursts = (period: 10.0, length: 1.0, factor: 5.5)

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
        case .bursty: return burst(steady)
        case .diurnal(let day): return Self.ofDay(steady, day: day)
        }
    }

    private mutating func burst(_ steady: Double) -> Double {
        let bursts = RateProfile.bursts
        // Ratio of the rate outside of bursts to the mean.
        let quiet = (bursts.period - bursts.length * bursts.factor) / (bursts.period - bursts.length)
        let current = Int(steady / bursts.period)
        if current != period {
            period = current
            var random = SeededGenerator(seed: seed ^ (UInt64(truncatingIfNeeded: current) &* 0xD134_2543_DE82_EF95))
            burstStart = random.unit() * (bursts.period - bursts.length)
        }
        let start = Double(current) * bursts.period
        let work = steady - start
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
