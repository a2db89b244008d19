/// Counts of durations in classes of at most 3 % of their size, from seconds to years.
package struct AgeHistogram: Sendable {
    private static let perOctave = 32
    private var counts: [Int] = []
    package private(set) var count = 0
    package private(set) var largest = 0

    package init() {}

    /// - Parameter seconds: a negative number counts as 0.
    mutating func add(_ seconds: Int) {
        let value = max(0, seconds)
        let place = Self.place(of: value)
        while counts.count <= place { counts.append(0) }
        counts[place] += 1
        count += 1
        largest = max(largest, value)
    }

    private static func place(of value: Int) -> Int {
        guard value >= 2 * perOctave else { return value }
        let shift = Int.bitWidth - value.leadingZeroBitCount - 6
        return shift * perOctave + (value >> shift)
    }

    /// Largest value of a class.
    private static func limit(of place: Int) -> Int {
        guard place >= 2 * perOctave else { return place }
        let shift = place / perOctave - 1
        return ((place - shift * perOctave) + 1) << shift - 1
    }

    /// Seconds that a share of the durations do not exceed; nil without durations.
    package func percentile(_ share: Double) -> Int? {
        guard count > 0 else { return nil }
        let rank = max(1, Int((share * Double(count)).rounded(.up)))
        var sum = 0
        for (place, number) in counts.enumerated() {
            sum += number
            if sum >= rank { return min(Self.limit(of: place), largest) }
        }
        return largest
    }
}
