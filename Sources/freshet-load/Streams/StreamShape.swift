import WidgetModel

/// Invalid description of a stream, with the expected form.
struct StreamProblem: Error, Sendable, Equatable, CustomStringConvertible {
    let description: String
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
    static func parse(_ text: String, day: Double) throws(StreamProblem) -> StreamDistribution {
        var distribution = StreamDistribution()
        var (hasRanks, hasProfile) = (false, false)
        for part in text.split(separator: "+", omittingEmptySubsequences: false) {
            let isRanks = part == "uniform" || part.hasPrefix("zipf")
            guard isRanks ? !hasRanks : !hasProfile else {
                throw StreamProblem(description: "\(text): expected \(form)")
            }
            if isRanks { hasRanks = true } else { hasProfile = true }
            switch part {
            case "uniform": break
            case "zipf": distribution.exponent = 1
            case "bursty": distribution.profile = .bursty(RateProfile.Bursts())
            case "diurnal": distribution.profile = .diurnal(day: day)
            default:
                guard part.hasPrefix("zipf:"), let exponent = Double(part.dropFirst(5)),
                    (0.1...5).contains(exponent)
                else { throw StreamProblem(description: "\(text): expected \(form)") }
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
enum StreamAudience: String, Sendable, CaseIterable {
    case user, device, widget, everyone
}

/// Type of an event of a stream.
enum StreamEventSort: String, Sendable, CaseIterable {
    case push, foreground, background
}

/// A choice among a few values with weights.
struct WeightedChoice<Value: Sendable & Equatable & CaseIterable & RawRepresentable<String>>: Sendable, Equatable {
    let weights: [(value: Value, upTo: Double)]

    static func == (left: Self, right: Self) -> Bool {
        left.weights.elementsEqual(right.weights) { $0.value == $1.value && $0.upTo == $1.upTo }
    }

    /// Always the one.
    init(_ value: Value) {
        weights = [(value, 1)]
    }

    /// - Parameter text: such as `user=90,device=8,widget=2`; a name alone weighs 1.
    init(_ text: String) throws(StreamProblem) {
        let names = Value.allCases.map(\.rawValue).joined(separator: ", ")
        func problem(_ what: String) -> StreamProblem {
            StreamProblem(
                description: "\(text): \(what); expected weights of \(names), such as "
                    + Value.allCases.map { "\($0.rawValue)=1" }.joined(separator: ","))
        }
        var found: [(value: Value, weight: Double)] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let sides = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let value = Value(rawValue: String(sides[0])) else { throw problem("unknown name \(sides[0])") }
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
