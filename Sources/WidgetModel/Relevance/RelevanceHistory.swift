internal import Foundation

/// Bounded, decaying summary of the scores that a widget's timelines have provided.
///
/// Scores compare only within the entries of one widget. The rank of a score among them is comparable between widgets.
///
/// The summary is a list of weighted centroids. When there are too many, the two neighbours with the least common
/// weight become one, so that the resolution follows the quantiles, whatever the scale of the scores. An entry's weight
/// halves every 36 hours: a provider that changes its scale is back to meaningful ranks within days.
package struct RelevanceHistory: Hashable, Sendable {
    /// Time in which the weight of an entry halves, in seconds.
    package static let halfLife = 36.0 * 3_600
    /// Greatest number of centroids.
    static let capacity = 20

    struct Centroid: Hashable, Sendable {
        /// At least 0: scores that are not relevant count as 0.
        var score: Double
        var weight: Float
    }

    /// In ascending order of their scores, which differ.
    private(set) var centroids: [Centroid] = []
    /// Entries up to this time have been counted; their weights are those at this time.
    package private(set) var absorbedUntil: Timestamp = .distantPast

    package init() {}

    // MARK: Absorbing

    /// Counts the entries with relevance that took effect after the last absorption, until `now`.
    ///
    /// Entries that are sent again on every reload are counted once. Does nothing if the clock went back.
    package mutating func absorb(_ curve: RelevanceCurve, until now: Timestamp) {
        guard now > absorbedUntil else { return }
        let factor = Self.decay(from: absorbedUntil, to: now)
        for index in centroids.indices { centroids[index].weight *= factor }
        for point in curve.points where absorbedUntil < point.date && point.date <= now {
            add(Centroid(score: max(0, point.score), weight: Self.decay(from: point.date, to: now)))
        }
        absorbedUntil = now
    }

    /// Absorbs the timeline that was shown until `now`, and the entry of its successor that takes effect at once: it
    /// may be dated before `now`, and it is a new one unless the old timeline has it, too.
    package mutating func replace(_ old: RelevanceCurve, with new: RelevanceCurve, at now: Timestamp) {
        guard now > absorbedUntil else { return }
        absorb(old, until: now)
        if let point = new.point(at: now), old.point(at: now) != point {
            add(Centroid(score: max(0, point.score), weight: 1))
        }
    }

    /// Remaining part of a weight, at least 2⁻²⁰, so that a long silence forgets nothing but the age.
    private static func decay(from start: Timestamp, to end: Timestamp) -> Float {
        let seconds = Double((end - start).wholeMicroseconds) / 1_000_000
        return Float(exp2(-min(20, max(0, seconds / halfLife))))
    }

    private mutating func add(_ new: Centroid) {
        let index = centroids.firstIndex { $0.score >= new.score } ?? centroids.count
        if index < centroids.count, centroids[index].score == new.score {
            centroids[index].weight += new.weight
        } else {
            centroids.insert(new, at: index)
        }
        // Negligible weights are dropped first.
        let least = centroids.reduce(0) { $0 + $1.weight } / 16_384
        centroids.removeAll { $0.weight <= least }
        if centroids.count > Self.capacity { mergeLightestPair() }
    }

    /// Merges the two neighbours with the least common weight. Scores that are not relevant stay apart.
    private mutating func mergeLightestPair() {
        let firsts = (centroids[0].score == 0 ? 1 : 0)..<(centroids.count - 1)
        guard
            let first = firsts.min(by: {
                centroids[$0].weight + centroids[$0 + 1].weight < centroids[$1].weight + centroids[$1 + 1].weight
            })
        else { return }
        let (left, right) = (centroids[first], centroids.remove(at: first + 1))
        let weight = left.weight + right.weight
        centroids[first].weight = weight
        centroids[first].score += (right.score - left.score) * Double(right.weight / weight)
    }

    // MARK: Stored form

    private static let form: UInt8 = 1

    /// A byte for the form; the time of the last absorption; for each centroid its score and its weight. Big-endian, at
    /// most 249 bytes.
    package var encoded: [UInt8] {
        var bytes: [UInt8] = [Self.form]
        bytes.reserveCapacity(9 + 12 * centroids.count)
        bytes.append(UInt64(bitPattern: absorbedUntil.microseconds), bytes: 8)
        for centroid in centroids {
            bytes.append(centroid.score.bitPattern, bytes: 8)
            bytes.append(UInt64(centroid.weight.bitPattern), bytes: 4)
        }
        return bytes
    }

    /// Reads the stored form; nil when it is none.
    package init?(encoded bytes: [UInt8]) {
        let (count, rest) = (bytes.count - 9).quotientAndRemainder(dividingBy: 12)
        guard bytes.count >= 9, rest == 0, count <= Self.capacity, bytes[0] == Self.form else { return nil }
        absorbedUntil = Timestamp(microseconds: Int64(bitPattern: UInt64(bytes: bytes[1..<9])))
        for start in stride(from: 9, to: bytes.count, by: 12) {
            let centroid = Centroid(
                score: Double(bitPattern: UInt64(bytes: bytes[start..<(start + 8)])),
                weight: Float(bitPattern: UInt32(UInt64(bytes: bytes[(start + 8)..<(start + 12)]))))
            guard centroid.score.isFinite, centroid.score >= 0, centroid.weight.isFinite, centroid.weight > 0,
                centroids.last.map({ $0.score < centroid.score }) ?? true
            else { return nil }
            centroids.append(centroid)
        }
    }
}

/// Ranks of scores among all entries of a widget: a sorted table, made once for many look-ups.
package struct RelevanceRanks: Sendable {
    /// Scores in ascending order with the weight below each.
    private var scores: [Double] = []
    private var below: [Double] = [0]

    package init(_ history: RelevanceHistory, with curve: RelevanceCurve) {
        let present = curve.points.filter { $0.date > history.absorbedUntil }.map { (max(0, $0.score), 1.0) }
        let weights = history.centroids.map { ($0.score, Double($0.weight)) } + present
        for (score, weight) in weights.sorted(by: { $0.0 < $1.0 }) {
            if scores.last == score {
                below[scores.count] += weight
            } else {
                scores.append(score)
                below.append(below[scores.count - 1] + weight)
            }
        }
    }

    /// The weight below a score and half of the weight equal to it, as a part of the whole.
    ///
    /// 0 for a score that is not relevant; 0.5 for the only score, and while no entry is known.
    package func rank(of score: Double) -> Double {
        guard score > 0 else { return 0 }
        let total = below[scores.count]
        guard total > 0 else { return 0.5 }
        var (low, high) = (0, scores.count)
        while low < high {
            let middle = (low + high) / 2
            if scores[middle] < score { low = middle + 1 } else { high = middle }
        }
        guard low < scores.count, scores[low] == score else { return below[low] / total }
        return (below[low] + below[low + 1]) / 2 / total
    }
}
