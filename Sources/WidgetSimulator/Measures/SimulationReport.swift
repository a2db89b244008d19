// SPDX-License-Identifier: Apache-2.0

package import JSON
internal import WidgetModel

/// Result of a simulation, as a page or a program shows it.
package struct SimulationReport: Sendable {
    package let options: SimulationOptions
    /// Widgets and timelines at the end.
    package internal(set) var widgets = 0
    package internal(set) var timelines = 0
    /// Events, those without effect, and those for apps or kinds that the manifest does not have.
    package internal(set) var events = 0
    package internal(set) var ignoredEvents = 0
    package internal(set) var unknownEvents = 0
    package internal(set) var kinds: [KindTally] = []
    package internal(set) var providers: [ProviderTally] = []
    package internal(set) var stacks = 0
    /// Plans of stacks.
    package internal(set) var plans = 0
    /// Automatic rotations of stacks, by reason.
    package internal(set) var rotations: [String: Int] = [:]
    package internal(set) var suggestions = 0
    /// Times at which a person wanted a widget of a stack, and found it on top.
    package internal(set) var wanted = 0
    package internal(set) var found = 0

    init(options: SimulationOptions) {
        self.options = options
    }

    /// Time of an hour of the providers' loads.
    package func time(ofHour hour: Int) -> String { (options.from + .seconds(3_600 * hour)).rfc3339 }

    /// The report as JSON.
    package var json: JSONValue {
        let stacks: JSONValue = [
            "found": .count(found), "plans": .count(plans), "rotations": .counts(rotations), "stacks": .count(stacks),
            "suggestions": .count(suggestions), "wanted": .count(wanted),
        ]
        return [
            "days": .count(options.days), "events": .count(events), "from": .time(options.from),
            "ignoredEvents": .count(ignoredEvents), "kinds": .array(kinds.map(\.json)),
            "people": .count(options.people), "providers": .array(providers.map(\.json)),
            "seed": .number(JSONNumber("\(options.seed)") ?? JSONNumber(0)), "stacks": stacks,
            "timelines": .count(timelines), "unknownEvents": .count(unknownEvents),
            "warmUpDays": .count(options.warmUpDays), "widgets": .count(widgets),
        ]
    }
}

/// Counts of a kind.
package struct KindTally: Sendable {
    package let app: String
    package let name: String
    /// Timelines at the end.
    package internal(set) var timelines = 0
    /// Days of life of the timelines, as far as they are counted.
    var lifeDays = 0.0
    var counters = KindCounters()
    /// Fetches by the rule that allowed them, by the rule's raw value.
    package internal(set) var fetches = [Int](repeating: 0, count: Self.rules)
    /// Deferrals by rule, likewise.
    package internal(set) var deferrals = [Int](repeating: 0, count: Self.rules)
    package internal(set) var failures = [Int](repeating: 0, count: Self.rules)
    /// Requests that reached a timeline, and those that were part of a pending reload.
    var requests = 0
    var merged = 0
    /// Time from the first pending request to the reload that served it.
    package internal(set) var waits = AgeHistogram()
    package internal(set) var views = 0
    /// Views of widgets without a timeline yet.
    var emptyViews = 0
    /// Views of content that was requested anew or past its policy's time.
    package internal(set) var staleViews = 0
    /// Seconds since the shown content was fetched, at each view.
    package internal(set) var ages = AgeHistogram()
    /// Seconds since the shown content was requested anew or its policy's time passed; 0 for fresh content.
    package internal(set) var staleness = AgeHistogram()
    /// Seconds since the last publication in the simulation, and in the real topic.
    package internal(set) var publicationAges = AgeHistogram()
    package internal(set) var realPublicationAges = AgeHistogram()
    /// Seconds since the last real fetch.
    package internal(set) var realAges = AgeHistogram()
    /// Numbers of budgeted reloads of a timeline on a day: timeline-days by number, the last for all greater ones.
    private var budgetedDays = [Int](repeating: 0, count: 101)
    /// Number of budgeted reloads, and sum and range of the budgets in effect at them.
    private var budgeted = 0
    private var budgetSum = 0
    private var budgetRange: ClosedRange<Int>?

    private static let rules = 64

    init(app: String, name: String) {
        self.app = app
        self.name = name
    }

    /// App and name.
    package var title: String { "\(app) \(name)" }
    package var reloaded: Int { counters.reloaded }

    /// Fetches of a timeline in a day of its life, and those of them that took a token of the budget.
    package var reloadsADay: Double { aDay(fetches.reduce(0, +)) }
    package var budgetedADay: Double { aDay(budgeted) }

    private func aDay(_ count: Int) -> Double { lifeDays > 0 ? Double(count) / lifeDays : 0 }

    /// Budgets in effect at budgeted reloads; nil without any.
    package var budget: (range: ClosedRange<Int>, mean: Double)? {
        budgetRange.map { ($0, Double(budgetSum) / Double(budgeted)) }
    }

    /// Largest number of budgeted reloads of a timeline on a day.
    package var busiestDay: Int { budgetedDays.lastIndex { $0 > 0 } ?? 0 }
    /// Timeline-days by their number of budgeted reloads; the first number is for one reload.
    package var days: [Int] { Array(budgetedDays.prefix(busiestDay + 1).dropFirst()) }

    /// Counts a budgeted reload.
    ///
    /// - Parameters:
    ///   - budget: the budget in effect.
    ///   - earlier: number of budgeted reloads of the timeline on the same day, before this one.
    mutating func countBudgeted(_ budget: Int, earlier: Int) {
        budgeted += 1
        budgetSum += budget
        budgetRange = min(budgetRange?.lowerBound ?? budget, budget)...max(budgetRange?.upperBound ?? budget, budget)
        let last = budgetedDays.count - 1
        if earlier > 0 { budgetedDays[min(earlier, last)] -= 1 }
        budgetedDays[min(earlier + 1, last)] += 1
    }

    /// Counts by rule, with the rules' names.
    package static func named(_ counts: [Int]) -> [String: Int] {
        var named: [String: Int] = [:]
        for (value, count) in counts.enumerated() where count > 0 {
            named[ReloadRule(rawValue: Int16(value))?.name ?? "\(value)"] = count
        }
        return named
    }

    fileprivate var json: JSONValue {
        let budget = budget.map { budget -> JSONValue in
            [
                "greatest": .count(budget.range.upperBound), "least": .count(budget.range.lowerBound),
                "mean": .decimal(budget.mean),
            ]
        }
        let members: KeyValuePairs<String, JSONValue?> = [
            "ages": ages.json, "app": .string(app), "budget": budget, "budgetedADay": .decimal(budgetedADay),
            "busiestDay": .count(busiestDay), "days": .array(days.map { .count($0) }),
            "deferrals": .counts(Self.named(deferrals)), "emptyViews": .count(emptyViews),
            "failed": .counts(Self.named(failures)), "fetches": .counts(Self.named(fetches)), "merged": .count(merged),
            "name": .string(name), "publicationAges": publicationAges.json, "realAges": realAges.json,
            "realPublicationAges": realPublicationAges.json, "reloaded": .count(reloaded),
            "reloadsADay": .decimal(reloadsADay), "requests": .count(requests), "slept": .count(counters.slept),
            "staleViews": .count(staleViews), "staleness": staleness.json, "timelines": .count(timelines),
            "unchanged": .count(counters.unchanged), "views": .count(views), "waits": waits.json,
        ]
        return .object(
            JSONObject(members.compactMap { key, value in value.map { (key: key, value: $0) } }))
    }
}

/// Load of one provider. Apps never share requests, even to one URL.
package struct ProviderTally: Sendable {
    package let app: String
    package let url: String
    /// Requests and timelines by minute from the begin.
    private var requestsByMinute: [Int32]
    private var timelinesByMinute: [Int32]

    init(app: String, url: String, minutes: Int) {
        self.app = app
        self.url = url
        requestsByMinute = [Int32](repeating: 0, count: minutes)
        timelinesByMinute = requestsByMinute
    }

    mutating func count(_ timelines: Int, minute: Int) {
        guard requestsByMinute.indices.contains(minute) else { return }
        requestsByMinute[minute] += 1
        timelinesByMinute[minute] += Int32(timelines)
    }

    package var requests: Int { requestsByHour.reduce(0, +) }
    package var timelines: Int { timelinesByHour.reduce(0, +) }
    private var requestsByHour: [Int] { Self.byHour(requestsByMinute) }
    package var timelinesByHour: [Int] { Self.byHour(timelinesByMinute) }

    /// Hour with the most timelines, counted from the begin.
    package var peakHour: Int {
        let loads = timelinesByHour
        return loads.indices.max { loads[$0] < loads[$1] } ?? 0
    }

    package var peakMinuteRequests: Int { Int(requestsByMinute.max() ?? 0) }

    private static func byHour(_ minutes: [Int32]) -> [Int] {
        stride(from: 0, to: minutes.count, by: 60).map { first in
            minutes[first..<min(first + 60, minutes.count)].reduce(0) { $0 + Int($1) }
        }
    }

    fileprivate var json: JSONValue {
        [
            "app": .string(app), "peakHour": .count(peakHour), "peakMinuteRequests": .count(peakMinuteRequests),
            "requests": .count(requests), "requestsByHour": .array(requestsByHour.map { .count($0) }),
            "timelines": .count(timelines), "timelinesByHour": .array(timelinesByHour.map { .count($0) }),
            "url": .string(url),
        ]
    }
}

/// Counts of durations in classes of at most 3 % of their size, from seconds to years.
package struct AgeHistogram: Sendable {
    private static let perOctave = 32
    private var counts: [Int] = []
    private var count = 0
    private var largest = 0

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
    func percentile(_ share: Double) -> Int? {
        guard count > 0 else { return nil }
        let rank = max(1, Int((share * Double(count)).rounded(.up)))
        var sum = 0
        for (place, number) in counts.enumerated() {
            sum += number
            if sum >= rank { return min(Self.limit(of: place), largest) }
        }
        return largest
    }

    package var p50: Int? { percentile(0.5) }
    package var p95: Int? { percentile(0.95) }
    package var p99: Int? { percentile(0.99) }

    /// The percentiles; an empty object without durations.
    fileprivate var json: JSONValue {
        count == 0 ? [:] : ["p50": .count(p50), "p95": .count(p95), "p99": .count(p99)]
    }
}

extension JSONValue {
    fileprivate static func counts(_ counts: [String: Int]) -> JSONValue {
        let members = counts.sorted { $0.key < $1.key }.map { (key: $0.key, value: JSONValue.count($0.value)) }
        return .object(JSONObject(unique: members))
    }
}
