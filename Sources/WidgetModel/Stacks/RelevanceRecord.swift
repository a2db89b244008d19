// SPDX-License-Identifier: Apache-2.0

internal import Foundation
package import JSON

/// Stored relevance of a timeline: the scores in effect now and later, and a summary of all that were ever provided.
package struct RelevanceRecord: Hashable, Sendable {
    package private(set) var curve: RelevanceCurve
    package private(set) var history: RelevanceHistory

    package init(curve: RelevanceCurve = RelevanceCurve([]), history: RelevanceHistory = RelevanceHistory()) {
        self.curve = curve
        self.history = history
    }

    /// Takes over a timeline that was stored at a time. An earlier score goes on until the first entry that carries
    /// one.
    package mutating func replace(with new: RelevanceCurve, at time: Timestamp) {
        // The widget may have come to the timeline after it was stored, and brings what has been relevant since.
        let time = max(time, history.absorbedUntil + .microseconds(1))
        history.replace(curve, with: new, at: time)
        let present = curve.present(followedBy: new, at: time)
        curve = RelevanceCurve(present.points + new.points.filter { $0.date > time })
    }

    /// The curve with the entries of its timeline that came before.
    package func curve(after timeline: RelevanceCurve) -> RelevanceCurve {
        let first = curve.points.first?.date ?? .distantFuture
        return RelevanceCurve(timeline.points.filter { $0.date < first } + curve.points)
    }
}

extension RelevanceCurve {
    private static let pointBytes = 24

    /// For each point its date and duration in microseconds and its score, big-endian.
    package var encoded: [UInt8] {
        var bytes: [UInt8] = []
        for point in points {
            bytes.append(UInt64(bitPattern: point.date.microseconds), bytes: 8)
            bytes.append(UInt64(bitPattern: point.duration.wholeMicroseconds), bytes: 8)
            bytes.append(point.score.bitPattern, bytes: 8)
        }
        return bytes
    }

    /// Reads the stored form; nil when it is none.
    package init?(encoded bytes: [UInt8]) {
        guard bytes.count % Self.pointBytes == 0 else { return nil }
        func word(_ start: Int) -> UInt64 { UInt64(bytes: bytes[start..<start + 8]) }
        self.init(
            stride(from: 0, to: bytes.count, by: Self.pointBytes).map { start in
                Point(
                    date: Timestamp(microseconds: Int64(bitPattern: word(start))),
                    score: Double(bitPattern: word(start + 16)),
                    duration: .microseconds(Int64(bitPattern: word(start + 8))))
            })
    }
}

/// Relevance of a timeline as a step function of time (DESIGN.md, E).
///
/// Scores compare only within one widget: their scale is the provider's own.
package struct RelevanceCurve: Hashable, Sendable {
    /// Relevance that an entry carries.
    package struct Point: Hashable, Sendable {
        package var date: Timestamp
        /// 0 and below: not relevant.
        package var score: Double
        /// Zero: until the next point.
        package var duration: Duration

        package init(date: Timestamp, score: Double, duration: Duration = .zero) {
            self.date = date
            self.score = score
            self.duration = duration
        }

        /// End of the duration, unless another entry with relevance comes before.
        fileprivate var end: Timestamp { duration > .zero ? date + duration : .distantFuture }

        /// Whether the point continues the relevance of the point before instead of beginning a new one: it has the
        /// same score and follows soon.
        fileprivate func updates(_ earlier: Point) -> Bool {
            score == earlier.score
                && (earlier.leads(to: self)
                    || date < earlier.end && date <= earlier.date + RelevanceCurve.repetition)
        }

        /// The beginning of a relevance that many points may have updated, of which only the last one is kept.
        ///
        /// It is told by a duration that no provider gives: until a microsecond after the last one.
        fileprivate init(beginning: Timestamp, of last: Point) {
            self.init(date: beginning, score: last.score, duration: last.date - beginning + .microseconds(1))
        }

        private func leads(to last: Point) -> Bool { end == last.date + .microseconds(1) }
    }

    /// Time after an entry in which another one that repeats its score, while that is in effect, is no new relevance.
    static let repetition: Duration = .seconds(7_200)

    /// A score that holds from a date until the next step.
    package struct Step: Hashable, Sendable {
        package var from: Timestamp
        package var score: Double
    }

    /// Points that take effect, in the order of their dates, which differ.
    package let points: [Point]
    /// For each point the time at which its relevance began, with it or with the point that it updates.
    private let beginnings: [Timestamp]
    /// Steps in the order of time; neighbours have different scores.
    package let steps: [Step]

    /// - Parameter points: those entries that carry relevance, in the order of their dates. An entry without relevance
    ///   changes nothing. Of several with one date the last one counts.
    package init(_ points: [Point]) {
        var steps: [Step] = []
        var effective: [Point] = []
        var beginnings: [Timestamp] = []
        func add(_ score: Double, from date: Timestamp) {
            if steps.last?.score != score { steps.append(Step(from: date, score: score)) }
        }
        for (index, point) in points.enumerated() {
            let next = index + 1 < points.count ? points[index + 1].date : .distantFuture
            guard point.date < next else { continue }
            let isUpdate = effective.last.map(point.updates) ?? false
            beginnings.append(isUpdate ? beginnings.last ?? point.date : point.date)
            effective.append(point)
            add(point.score, from: point.date)
            if point.end < next { add(0, from: point.end) }
        }
        self.points = effective
        self.beginnings = beginnings
        self.steps = steps
    }

    /// - Parameter json: a stored timeline: an object with `entries` in the order of their dates.
    package init(timeline json: [UInt8]) throws(JSONError) {
        var points: [Point] = []
        try ParsedTimeline.forEachEntry(in: json) { (reader: inout JSONReader) throws(JSONError) in
            if let point = try Point(from: &reader) { points.append(point) }
        }
        self.init(points)
    }

    /// Score at a time; nil before the first entry that carries relevance, when the timeline says nothing.
    package func score(at time: Timestamp) -> Double? { steps.last { $0.from <= time }?.score }

    /// The last point whose date is not after a time.
    package func point(at time: Timestamp) -> Point? { points.last { $0.date <= time } }

    /// The relevance in effect at a time; nil before the first entry that carries one, and once a duration is over:
    /// then the timeline says nothing, and its score counts as 0.
    package func relevance(at time: Timestamp) -> (score: Double, since: Timestamp)? {
        guard let index = points.lastIndex(where: { $0.date <= time }), time < points[index].end else { return nil }
        return (points[index].score, beginnings[index])
    }

    /// Points after a time with which a relevance above 0 begins.
    func beginnings(after time: Timestamp) -> [Point] {
        zip(points, beginnings).filter { $0.date > time && $0.date == $1 && $0.score > 0 }.map(\.0)
    }

    /// The last entry until a time, of this curve or of one that replaces it at that time, behind the beginning of its
    /// relevance.
    fileprivate func present(followedBy new: RelevanceCurve, at time: Timestamp) -> RelevanceCurve {
        let known = RelevanceCurve(last(at: time) + [new.point(at: time)].compactMap(\.self))
        return RelevanceCurve(known.last(at: time))
    }

    /// The last point until a time, behind one from the beginning of its relevance until then.
    private func last(at time: Timestamp) -> [Point] {
        guard let index = points.lastIndex(where: { $0.date <= time }) else { return [] }
        let (point, beginning) = (points[index], beginnings[index])
        guard beginning < point.date else { return [point] }
        return [Point(beginning: beginning, of: point), point]
    }

    /// Whether an entry says that the widget is not relevant at a time.
    package func excludes(_ time: Timestamp) -> Bool { relevance(at: time).map { $0.score <= 0 } ?? false }

    /// Times at which a relevance begins, and those at which a duration is over. The times of entries that only update
    /// a relevance are not among them.
    var changes: Set<Timestamp> {
        let following = points.dropFirst().map(\.date) + [.distantFuture]
        return Set(beginnings).union(zip(points, following).filter { $0.end < $1 }.map(\.0.end))
    }

    /// The steps that hold within a range of time, the first one from its beginning.
    package func steps(in range: Range<Timestamp>) -> [Step] {
        var within = steps.filter { range.contains($0.from) }
        if within.first?.from != range.lowerBound, let score = score(at: range.lowerBound) {
            within.insert(Step(from: range.lowerBound, score: score), at: 0)
        }
        return within
    }
}

extension RelevanceCurve.Point {
    /// Reads an entry; nil if it carries no relevance.
    fileprivate init?(from reader: inout JSONReader) throws(JSONError) {
        var date: Timestamp?
        var relevance: (score: Double, duration: Duration)?
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "date": date = try reader.timestamp()
            case "relevance":
                guard try !reader.takeNull() else { continue }
                relevance = try Self.relevance(from: &reader)
            default: try reader.skip()
            }
        }
        guard let date, let relevance else { return nil }
        self.init(date: date, score: relevance.score, duration: relevance.duration)
    }

    private static func relevance(
        from reader: inout JSONReader
    ) throws(JSONError) -> (score: Double, duration: Duration) {
        var score = 0.0
        var seconds = 0.0
        try reader.beginObject()
        while let key = try reader.nextKey() {
            switch key {
            case "score": score = try reader.number().double
            case "duration":
                guard try !reader.takeNull() else { continue }
                seconds = try reader.seconds().value
            default: try reader.skip()
            }
        }
        // Longer than any timeline, and within the range of a duration.
        return (score, .seconds(min(seconds, 1e9)))
    }
}

/// Bounded, decaying summary of the scores that a widget's timelines have provided.
///
/// Scores compare only within the entries of one widget. The rank of a score among them is comparable between widgets.
///
/// Only scores above 0 count, so that ranks do not depend on how a provider says that its widget is not relevant: by a
/// score of 0, by the end of a duration, or not at all.
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
        /// Above 0.
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
        for point in curve.beginnings(after: absorbedUntil) where point.date <= now {
            add(point.score, weight: Self.decay(from: point.date, to: now))
        }
        absorbedUntil = now
    }

    /// Absorbs the timeline that was shown until `now`, and the entry of its successor that takes effect at once: it
    /// may be dated before `now`, and it is a new one unless the old timeline has it, too, or it updates that.
    package mutating func replace(_ old: RelevanceCurve, with new: RelevanceCurve, at now: Timestamp) {
        guard now > absorbedUntil else { return }
        absorb(old, until: now)
        guard let point = new.point(at: now) else { return }
        let isKnown = old.point(at: now).map { $0.date == point.date && $0.score == point.score } ?? false
        let since = old.present(followedBy: new, at: now).relevance(at: point.date)?.since
        if !isKnown, since == point.date { add(point.score, weight: 1) }
    }

    /// Remaining part of a weight, at least 2⁻²⁰, so that a long silence forgets nothing but the age.
    private static func decay(from start: Timestamp, to end: Timestamp) -> Float {
        let seconds = Double((end - start).wholeMicroseconds) / 1_000_000
        return Float(exp2(-min(20, max(0, seconds / halfLife))))
    }

    /// - Parameter score: above 0; one that is not is left out.
    private mutating func add(_ score: Double, weight: Float) {
        guard score > 0 else { return }
        let index = centroids.firstIndex { $0.score >= score } ?? centroids.count
        if index < centroids.count, centroids[index].score == score {
            centroids[index].weight += weight
        } else {
            centroids.insert(Centroid(score: score, weight: weight), at: index)
        }
        // Negligible weights are dropped first.
        let least = centroids.reduce(0) { $0 + $1.weight } / 16_384
        centroids.removeAll { $0.weight <= least }
        if centroids.count > Self.capacity { mergeLightestPair() }
    }

    /// Merges the two neighbours with the least common weight.
    private mutating func mergeLightestPair() {
        guard
            let first = (0..<(centroids.count - 1)).min(by: {
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
            guard centroid.score.isFinite, centroid.score > 0, centroid.weight.isFinite, centroid.weight > 0,
                centroids.last.map({ $0.score < centroid.score }) ?? true
            else { return nil }
            centroids.append(centroid)
        }
    }
}

/// Ranks of scores among all entries of a widget with a score above 0: a sorted table, made once for many look-ups.
package struct RelevanceRanks: Sendable {
    /// Scores in ascending order with the weight below each.
    private var scores: [Double] = []
    private var below: [Double] = [0]

    package init(_ history: RelevanceHistory, with curve: RelevanceCurve) {
        let present = curve.beginnings(after: history.absorbedUntil).map { ($0.score, 1.0) }
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

    /// Words for the only known score and for the highest; nil for others.
    func superlative(of score: Double) -> String? {
        guard scores.last.map({ $0 <= score }) ?? true else { return nil }
        let count = scores.count + (scores.last == score ? 0 : 1)
        if count == 1 { return "the only one so far" }
        // Centroids of a full history stand for several scores each.
        return count > RelevanceHistory.capacity
            ? "the highest of all of its scores" : "the highest of its \(count) different scores"
    }

    /// The weight below a score and half of the weight equal to it, as a part of the whole.
    ///
    /// 0 for a score that is not relevant; 0.5 for the only score, and while no entry is known; at least 0.5 for the
    /// greatest score.
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
