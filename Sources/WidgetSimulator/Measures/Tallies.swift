package import WidgetModel

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

/// Counts of a kind.
package struct KindTally: Sendable {
    package var counters = KindCounters()
    /// Fetches by the rule that allowed them, by the rule's raw value.
    package var fetches = [Int](repeating: 0, count: Self.rules)
    /// Deferrals by rule, likewise.
    package var deferrals = [Int](repeating: 0, count: Self.rules)
    package var failures = [Int](repeating: 0, count: Self.rules)
    /// Requests that reached a timeline, and those that were part of a pending reload.
    package var requests = 0
    package var merged = 0
    /// Time from the first pending request to the reload that served it.
    package var waits = AgeHistogram()
    package var views = 0
    /// Views of widgets without a timeline yet.
    package var emptyViews = 0
    /// Views of content that was requested anew or past its policy's time.
    package var staleViews = 0
    /// Seconds since the shown content was fetched, at each view.
    package var ages = AgeHistogram()
    /// Seconds since the shown content was requested anew or its policy's time passed; 0 for fresh content.
    package var staleness = AgeHistogram()
    /// Seconds since the last publication in the simulation, and in the real topic.
    package var publicationAges = AgeHistogram()
    package var realPublicationAges = AgeHistogram()
    /// Seconds since the last real fetch.
    package var realAges = AgeHistogram()
    /// Numbers of budgeted reloads of a timeline on a day: timeline-days by number, the last for all greater ones.
    package var budgetedDays = [Int](repeating: 0, count: 101)
    /// Sum and number of the budgets in effect at budgeted reloads, and their range.
    package var budgetSum = 0
    package var budgetCount = 0
    package var leastBudget = Int.max
    package var greatestBudget = 0

    private static let rules = 64

    mutating func countBudget(_ budget: Int) {
        budgetSum += budget
        budgetCount += 1
        leastBudget = min(leastBudget, budget)
        greatestBudget = max(greatestBudget, budget)
    }
}

/// Load of one provider.
package struct ProviderTally: Sendable {
    /// Requests and timelines by minute from the begin.
    package private(set) var requests: [Int32]
    package private(set) var timelines: [Int32]

    init(minutes: Int) {
        requests = [Int32](repeating: 0, count: minutes)
        timelines = requests
    }

    mutating func count(_ number: Int, minute: Int) {
        guard requests.indices.contains(minute) else { return }
        requests[minute] += 1
        timelines[minute] += Int32(number)
    }
}

/// Counts of stacks.
package struct StackTally: Encodable, Sendable {
    package var stacks = 0
    package var plans = 0
    /// Automatic rotations, by reason.
    package var rotations: [String: Int] = [:]
    package var suggestions = 0
    /// Times at which a person wanted a widget of a stack, and found it on top.
    package var wanted = 0
    package var found = 0
}
