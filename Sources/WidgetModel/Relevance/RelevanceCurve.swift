package import JSON

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
    }

    /// A score that holds from a date until the next step.
    package struct Step: Hashable, Sendable {
        package var from: Timestamp
        package var score: Double
    }

    /// Points that take effect, in the order of their dates, which differ.
    package let points: [Point]
    /// Steps in the order of time; neighbours have different scores.
    package let steps: [Step]

    /// - Parameter points: those entries that carry relevance, in the order of their dates. An entry without relevance
    ///   changes nothing. Of several with one date the last one counts.
    package init(_ points: [Point]) {
        var steps: [Step] = []
        var effective: [Point] = []
        func add(_ score: Double, from date: Timestamp) {
            if steps.last?.score != score { steps.append(Step(from: date, score: score)) }
        }
        for (index, point) in points.enumerated() {
            let next = index + 1 < points.count ? points[index + 1].date : .distantFuture
            guard point.date < next else { continue }
            effective.append(point)
            add(point.score, from: point.date)
            let end = point.date + point.duration
            if point.duration > .zero, end < next { add(0, from: end) }
        }
        self.points = effective
        self.steps = steps
    }

    /// - Parameter json: a stored timeline: an object with `entries` in the order of their dates.
    package init(timeline json: [UInt8]) throws(JSONError) {
        var points: [Point] = []
        try StoredEntries.forEach(in: json) { (reader: inout JSONReader) throws(JSONError) in
            if let point = try Point(from: &reader) { points.append(point) }
        }
        self.init(points)
    }

    /// Score at a time; nil before the first entry that carries relevance, when the timeline says nothing.
    package func score(at time: Timestamp) -> Double? { steps.last { $0.from <= time }?.score }

    /// The last point whose date is not after a time.
    package func point(at time: Timestamp) -> Point? { points.last { $0.date <= time } }

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
