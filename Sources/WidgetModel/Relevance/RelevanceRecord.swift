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
        history.replace(curve, with: new, at: time)
        let present = new.point(at: time) ?? curve.point(at: time)
        curve = RelevanceCurve([present].compactMap(\.self) + new.points.filter { $0.date > time })
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
