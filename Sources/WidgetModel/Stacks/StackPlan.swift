// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Content of a widget, independent of its place: two widgets with the same content look the same.
package struct WidgetContent: Hashable, Comparable, Sendable {
    package var app: String
    package var kind: String
    package var configuration: WidgetConfiguration

    package init(app: String, kind: String, configuration: WidgetConfiguration = .empty) {
        self.app = app
        self.kind = kind
        self.configuration = configuration
    }

    package static func == (left: WidgetContent, right: WidgetContent) -> Bool {
        Text.equal(left.app, right.app) && Text.equal(left.kind, right.kind)
            && left.configuration == right.configuration
    }

    package func hash(into hasher: inout Hasher) {
        Text.hash(app, into: &hasher)
        Text.hash(kind, into: &hasher)
        hasher.combine(configuration)
    }

    /// Byte order of app, kind and configuration.
    package static func < (left: WidgetContent, right: WidgetContent) -> Bool {
        if !Text.equal(left.app, right.app) { return Text.precedes(left.app, right.app) }
        if !Text.equal(left.kind, right.kind) { return Text.precedes(left.kind, right.kind) }
        return Text.precedes(left.configuration.canonical, right.configuration.canonical)
    }
}

/// Widgets on top of each other, as the person arranged them.
package struct Stack: Hashable, Sendable {
    /// A widget of the stack.
    package struct Item: Hashable, Sendable {
        package var widget: String
        package var content: WidgetContent
    }

    /// A turn of the stack by hand.
    package struct Turn: Hashable, Sendable {
        /// The widget that the person brought to the top: one of the stack, or that of a suggestion.
        package var widget: String
        package var at: Timestamp
    }

    package var name: String
    package var items: [Item]
    /// Whether widgets rotate to the top automatically. Otherwise only the person turns the stack.
    package var smartRotate = true
    /// Whether widgets may be suggested.
    package var suggestions = true
    /// Last turn by hand.
    package var chosen: Turn?
    /// While the last turn was to a suggestion: the widget of the last one before that was not.
    package var left: String?

    /// The widget that the person left on top: that of the last turn by hand, or the first; nil for an empty stack.
    var base: String? {
        let left = [chosen?.widget, left].compactMap(\.self).lazy.compactMap { left in
            items.first { Text.equal($0.widget, left) }
        }
        return (left.first ?? items.first)?.widget
    }
}

/// Shortcut that an app declares relevant for a widget.
package struct RelevantShortcut: Hashable, Sendable {
    package var content: WidgetContent
    package var role: String
    /// Times at which it is relevant. If empty, the shortcut is relevant when the person usually looks.
    package var ranges: [Range<Timestamp>]

    package init(content: WidgetContent, role: String = "", ranges: [Range<Timestamp>] = []) {
        self.content = content
        self.role = role
        self.ranges = ranges
    }

    package func holds(at time: Timestamp) -> Bool { ranges.contains { $0.contains(time) } }
}

/// Limits of automatic rotations and suggestions.
package struct RotationPolicy: Hashable, Sendable {
    /// Minimum time between two automatic rotations, so that a stack does not flicker.
    package var minimumStay: Duration = .seconds(900)
    /// Time for which a turn by hand is respected.
    package var respectForTurn: Duration = .seconds(7_200)
    /// Minimum probability at which a widget rotates to the top.
    package var minimumPrediction = 0.2
    /// Minimum probability at which a widget is suggested.
    package var minimumSuggestion = 0.3
    /// Value of a widget while its shortcut is relevant, comparable to ranks and probabilities.
    package var shortcutValue = 0.75
    /// Largest number of suggestions of an app on a device in 24 hours.
    package var maximumSuggestionsPerDay = 6

    package init() {}

    /// Lifts the limits for an app in developer mode: evidence turns the stack at once.
    package mutating func liftLimits() {
        minimumStay = .zero
        respectForTurn = .zero
        maximumSuggestionsPerDay = .max
    }
}

/// Top widget of a stack from now on, with reasons, and the widgets that are inserted meanwhile.
package struct StackSchedule: Hashable, Sendable {
    /// A widget of the stack, or one that is inserted for a while.
    package enum Item: Hashable, Sendable {
        case widget(String)
        case suggestion(WidgetContent)

        /// Id of a widget of the stack; nil for a suggestion.
        package var widget: String? {
            if case .widget(let id) = self { id } else { nil }
        }
    }

    package enum Reason: Hashable, Sendable {
        /// Nothing moved it to the top: it has been there since the stack is known.
        case start
        case personsChoice
        case relevance(score: Double, rank: Double)
        case prediction(probability: Double, explanation: String)
        case shortcut(role: String)
        /// The suggested widget before it was removed.
        case suggestionEnded
        /// No widget of the stack has evidence any more: it goes back to the one that the person left on top.
        case leftOnTop
    }

    /// Change of the top widget.
    package struct Rotation: Hashable, Sendable {
        package var from: Timestamp
        package var item: Item
        package var reason: Reason
    }

    /// Time in which a suggested widget is part of the stack.
    package struct Insertion: Hashable, Sendable {
        package var from: Timestamp
        /// Nil: beyond the end of the schedule.
        package var until: Timestamp?
        package var content: WidgetContent
        /// Shortcut or prediction.
        package var reason: Reason

        package func holds(at time: Timestamp) -> Bool { from <= time && time < until ?? .distantFuture }

        /// Time after its beginning by which devices have been told of a suggestion, and may have shown it.
        package static let showingTime: Duration = .seconds(10)

        /// Whether the suggestion counts toward the limit of a day. One that was withdrawn before a device can have
        /// shown it does not count.
        var counts: Bool { from + Self.showingTime <= until ?? .distantFuture }
    }

    /// Evidence for a widget at a time, comparable between widgets, also of other stacks and apps.
    package struct Standing: Hashable, Sendable {
        /// From 0 to 1.
        package var value: Double
        /// Beginning of the newest relevance, or range of a shortcut; nil if there are habits only.
        package var since: Timestamp?
        package var reason: Reason

        /// Values that differ by no more than this count as equal: they are estimates from a few days.
        package static let margin = 0.05

        /// Index of the best standing: of those at most ``margin`` below the greatest value the one that began last,
        /// then the one with the greatest value, then the first.
        package static func best(of standings: [Standing]) -> Int? {
            let greatest = standings.reduce(0) { max($0, $1.value) }
            var best: Int?
            for (index, standing) in standings.enumerated() where standing.value >= greatest - margin {
                if best.map({ standings[$0].key < standing.key }) ?? true { best = index }
            }
            return best
        }

        private var key: (Timestamp, Double) { (since ?? .distantPast, value) }
    }

    /// Standing of the widget on top from a time on.
    package struct TopStanding: Hashable, Sendable {
        package var from: Timestamp
        package var item: Item
        /// Nil: there is no evidence for it.
        package var standing: Standing?

        /// Whether the evidence is the same as at an earlier time, apart from a small difference in value.
        func repeats(_ earlier: TopStanding, margin: Double = Standing.margin) -> Bool {
            guard item == earlier.item else { return false }
            guard let standing, let other = earlier.standing else {
                return standing == nil && earlier.standing == nil
            }
            return standing.since == other.since && abs(standing.value - other.value) <= margin
                && standing.reason.isOfType(of: other.reason)
        }
    }

    /// Time that bounds the number of standings, whatever the number of a timeline's entries.
    static let standingSpacing: Duration = .seconds(900)

    /// In the order of their times. The first, which may be past, is to a widget of the stack; none for an empty stack.
    package var rotations: [Rotation] = []
    /// In the order of their times, from the time of the plan on. A value that changes by ``Standing/margin`` or less
    /// is left out, and one widget has at most two changes in ``standingSpacing``: the last of more follows at its end.
    package var standings: [TopStanding] = []
    /// In the order of their times; at most one holds at a time.
    package var insertions: [Insertion] = []

    package init() {}

    /// Top of the stack at a time.
    package func top(at time: Timestamp) -> Rotation? { rotations.last { $0.from <= time } }

    package func insertion(at time: Timestamp) -> Insertion? { insertions.first { $0.holds(at: time) } }

    /// Standing of the widget on top at a time; the first one before the schedule begins.
    package func standing(at time: Timestamp) -> TopStanding? {
        standings.last { $0.from <= time } ?? standings.first
    }

    /// Whether another schedule has the same standings during a time, apart from small differences in value.
    fileprivate func hasStandings(of other: StackSchedule, in range: Range<Timestamp>) -> Bool {
        let times = (standings + other.standings).map(\.from).filter(range.contains) + [range.lowerBound]
        return times.allSatisfy { time in
            guard let own = standing(at: time), let known = other.standing(at: time) else {
                return standing(at: time) == nil && other.standing(at: time) == nil
            }
            return own.repeats(known, margin: 2 * Standing.margin)
        }
    }
}

/// The schedule of a stack with what belongs to it, as it is stored, published and served.
package struct StackPlan: Hashable, Sendable {
    /// A stack among those of all apps.
    package struct Key: Hashable, Sendable {
        package var app: String
        package var user: String
        package var device: String
        package var stack: String

        package init(app: String, user: String, device: String, stack: String) {
            self.app = app
            self.user = user
            self.device = device
            self.stack = stack
        }

        /// Identity of the schedule: key of its messages.
        package var id: TimelineID {
            TimelineID(hashOf: JSONValue.texts([app, user, device, stack]).canonicalBytes)
        }
    }

    package let key: Key
    package var schedule: StackSchedule
    package var plannedAt: Timestamp
    /// Beginnings of suggestions on the device during the 24 hours before, in any of its stacks.
    package var suggestedAt: [Timestamp]
    /// Suggestions as they would be if all of their timelines were rendered. Not stored.
    package var awaited: [StackSchedule.Insertion] = []
    /// Whether a widget that is placed has no content yet. Not stored.
    package var awaitsContent = false

    package init(key: Key, schedule: StackSchedule, plannedAt: Timestamp, suggestedAt: [Timestamp] = []) {
        self.key = key
        self.schedule = schedule
        self.plannedAt = plannedAt
        self.suggestedAt = suggestedAt
    }

    /// Time before a suggestion at which its widget is placed, so that its timeline is rendered when it begins.
    package static let lead: Duration = .seconds(900)
    /// Time that a suggestion waits at least for the timeline of its widget.
    package static let renderTime: Duration = .seconds(300)
    /// Age at which a plan is replaced, before the end of its horizon.
    package static let age: Duration = .seconds(6 * 3_600)

    package var until: Timestamp { plannedAt + StackPlanner.horizon }

    /// Beginnings of suggestions that count, during the 24 hours before a time. One that goes on over several plans is
    /// in it once.
    package func suggestions(before time: Timestamp) -> [Timestamp] {
        let begun = schedule.insertions.filter { $0.from <= time && $0.counts }.map(\.from)
            .filter { !suggestedAt.contains($0) }
        return (suggestedAt + begun).filter { $0 > time - .seconds(86_400) }
    }

    /// Time at which the plan is looked at again: it gets old, or a suggestion's widget is to be placed or removed.
    package var nextLook: Timestamp {
        let insertions = schedule.insertions + awaited
        let times = insertions.flatMap { [$0.from - Self.lead, $0.until].compactMap { $0 } }
        // Postponed again in time; its content, if it comes, has the stack planned at once.
        let again = awaitsContent ? plannedAt + Self.renderTime / 2 : .distantFuture
        return min(plannedAt + Self.age, again, times.filter { $0 > plannedAt }.min() ?? .distantFuture)
    }

    /// Suggestions whose widgets are to be placed at a time.
    package func placed(at time: Timestamp) -> [StackSchedule.Insertion] {
        var contents: Set<WidgetContent> = []
        return (schedule.insertions + awaited).filter { insertion in
            insertion.from - Self.lead <= time && time < insertion.until ?? .distantFuture
                && contents.insert(insertion.content).inserted
        }
    }

    /// Widgets of suggestions to place when the plan is made, because they begin soon, and to remove, because they are
    /// over.
    ///
    /// - Parameters:
    ///   - present: ids of the widgets on the device.
    ///   - member: family and environment of the stack's widgets; nil: it has none, and nothing is placed.
    package func suggestionChanges(
        present: [String], beside member: (family: WidgetFamily, environment: WidgetEnvironment)?
    ) -> (placed: [WidgetPlacement], removed: [String]) {
        let wanted = placed(at: plannedAt).map(\.content)
        let ids = wanted.map { widget(of: $0) }
        let suggested = present.filter { isSuggestion(widget: $0) }
        let removed = suggested.filter { !ids.contains($0) }
        guard let member else { return ([], removed) }
        let placed = zip(wanted, ids).filter { !suggested.contains($0.1) }.map { content, id in
            WidgetPlacement(
                app: key.app, widget: id, user: key.user, device: key.device, kind: content.kind,
                family: member.family, configuration: content.configuration, environment: member.environment)
        }
        return (placed, removed)
    }

    /// Whether an earlier plan says the same, as far as both reach. The evidence may differ: it moves with every plan.
    package func continues(_ earlier: StackPlan) -> Bool {
        guard plannedAt < earlier.plannedAt + Self.age else { return false }
        let end = earlier.until
        func seen(_ schedule: StackSchedule) -> StackSchedule {
            var seen = schedule
            let top = schedule.rotations.lastIndex { $0.from <= plannedAt } ?? 0
            seen.rotations = schedule.rotations.dropFirst(top).filter { $0.from < end }
            seen.insertions = schedule.insertions.filter { ($0.until ?? .distantFuture) > plannedAt && $0.from < end }
            seen.standings = []
            for index in seen.rotations.indices { seen.rotations[index].reason.removeEvidence() }
            for index in seen.insertions.indices {
                seen.insertions[index].reason.removeEvidence()
                if (seen.insertions[index].until ?? .distantFuture) >= end { seen.insertions[index].until = nil }
            }
            return seen
        }
        return seen(schedule) == seen(earlier.schedule)
            && schedule.hasStandings(of: earlier.schedule, in: plannedAt..<end)
    }

    /// Whether this plan leaves out or shortens a suggestion of an earlier plan that the device may know already.
    package func withdraws(from earlier: StackPlan) -> Bool {
        guard plannedAt < earlier.until else { return false }
        return earlier.schedule.insertions.contains { known in
            guard known.from - Self.lead <= plannedAt, plannedAt < known.until ?? .distantFuture else { return false }
            return !schedule.insertions.contains { planned in
                planned.content == known.content && planned.from <= max(known.from, plannedAt)
                    && planned.until ?? .distantFuture >= min(known.until ?? .distantFuture, earlier.until)
            }
        }
    }

    /// Id of the widget that shows a suggestion.
    package func widget(of content: WidgetContent) -> String { prefix + Self.hash(of: content) }

    private static func hash(of content: WidgetContent) -> String {
        "\(TimelineID(hashOf: JSONValue.texts([content.kind, content.configuration.canonical]).canonicalBytes))"
    }

    private static let suggestionPrefix = "freshet-suggestion-"

    /// Beginning of the ids of this stack's suggestions.
    private var prefix: String { "\(Self.suggestionPrefix)\(key.id)-" }

    /// Whether the widget is one that Freshet has placed for a suggestion of a content, into any stack.
    static func isSuggestion(widget: String, of content: WidgetContent) -> Bool {
        isSuggestion(widget: widget) && widget.hasSuffix("-\(hash(of: content))")
    }

    /// Whether the widget is one that Freshet has placed for a suggestion into this stack.
    package func isSuggestion(widget: String) -> Bool { widget.utf8.starts(with: prefix.utf8) }

    /// Whether the widget is one that Freshet has placed for a suggestion.
    package static func isSuggestion(widget: String) -> Bool { widget.utf8.starts(with: suggestionPrefix.utf8) }

    private func id(of item: StackSchedule.Item) -> String {
        switch item {
        case .widget(let id): id
        case .suggestion(let content): widget(of: content)
        }
    }

    /// The plan as a JSON object, as it is stored, published and served.
    package var json: JSONValue {
        [
            "app": .string(key.app), "user": .string(key.user), "device": .string(key.device),
            "stack": .string(key.stack), "plannedAt": .time(plannedAt), "until": .time(until),
            "rotations": .array(
                schedule.rotations.map { rotation in
                    [
                        "from": .time(rotation.from), "widget": .string(id(of: rotation.item)),
                        "reason": rotation.reason.json,
                    ]
                }),
            "suggestions": .array(
                schedule.insertions.map { insertion in
                    [
                        "widget": .string(widget(of: insertion.content)), "kind": .string(insertion.content.kind),
                        "configuration": insertion.content.configuration.value, "from": .time(insertion.from),
                        "until": .time(insertion.until), "reason": insertion.reason.json,
                    ]
                }),
            "suggestedAt": .array(suggestedAt.map { .time($0) }),
            "values": .array(
                schedule.standings.map { top in
                    var object: JSONObject = [
                        "from": .time(top.from), "widget": .string(id(of: top.item)),
                        "value": .decimal(top.standing?.value ?? 0),
                    ]
                    if let standing = top.standing {
                        if let since = standing.since { object["since"] = .time(since) }
                        object["reason"] = standing.reason.json
                    }
                    return .object(object)
                }),
        ]
    }

    /// Reads the stored form; nil when it is none.
    package init?(stored json: JSONValue, key: Key) {
        self.key = key
        schedule = StackSchedule()
        suggestedAt = (json["suggestedAt"]?.arrayValue ?? []).compactMap(\.timeValue)
        guard let time = json["plannedAt"]?.timeValue, let rotations = json["rotations"]?.arrayValue,
            let suggestions = json["suggestions"]?.arrayValue, let values = json["values"]?.arrayValue
        else { return nil }
        plannedAt = time
        var contents: [String: WidgetContent] = [:]
        for suggestion in suggestions {
            guard let widget = suggestion["widget"]?.stringValue, let kind = suggestion["kind"]?.stringValue,
                let values = suggestion["configuration"], let from = suggestion["from"]?.timeValue,
                let reason = suggestion["reason"].flatMap(StackSchedule.Reason.init(json:))
            else { return nil }
            let content = WidgetContent(
                app: key.app, kind: kind, configuration: WidgetConfiguration(storedCanonical: values.canonical))
            contents[widget] = content
            schedule.insertions.append(
                StackSchedule.Insertion(
                    from: from, until: suggestion["until"]?.timeValue, content: content, reason: reason))
        }
        for rotation in rotations {
            guard let from = rotation["from"]?.timeValue, let widget = rotation["widget"]?.stringValue,
                let reason = rotation["reason"].flatMap(StackSchedule.Reason.init(json:))
            else { return nil }
            let item = contents[widget].map(StackSchedule.Item.suggestion) ?? .widget(widget)
            schedule.rotations.append(StackSchedule.Rotation(from: from, item: item, reason: reason))
        }
        for value in values {
            guard let from = value["from"]?.timeValue, let widget = value["widget"]?.stringValue,
                let number = value["value"]?.numberValue?.double
            else { return nil }
            let reason = value["reason"].flatMap(StackSchedule.Reason.init(json:))
            let standing = reason.map {
                StackSchedule.Standing(value: number, since: value["since"]?.timeValue, reason: $0)
            }
            let item = contents[widget].map(StackSchedule.Item.suggestion) ?? .widget(widget)
            schedule.standings.append(StackSchedule.TopStanding(from: from, item: item, standing: standing))
        }
    }
}

extension JSONValue {
    fileprivate var timeValue: Timestamp? { stringValue.flatMap { Timestamp(rfc3339: Array($0.utf8)[...]) } }
}

extension StackSchedule.Reason {
    /// `{"type"}`, and the evidence by type.
    package var json: JSONValue {
        var object = JSONObject()
        switch self {
        case .start: object["type"] = "start"
        case .personsChoice: object["type"] = "person"
        case .relevance(let score, let rank):
            object["type"] = "relevance"
            object["score"] = .decimal(score)
            object["rank"] = .decimal(rank)
        case .prediction(let probability, let explanation):
            object["type"] = "prediction"
            object["probability"] = .decimal(probability)
            object["evidence"] = .string(explanation)
        case .shortcut(let role):
            object["type"] = "shortcut"
            if !role.isEmpty { object["role"] = .string(role) }
        case .suggestionEnded: object["type"] = "suggestionEnded"
        case .leftOnTop: object["type"] = "leftOnTop"
        }
        return .object(object)
    }

    /// Leaves the type only.
    fileprivate mutating func removeEvidence() {
        switch self {
        case .relevance: self = .relevance(score: 0, rank: 0)
        case .prediction: self = .prediction(probability: 0, explanation: "")
        case .shortcut: self = .shortcut(role: "")
        case .start, .personsChoice, .suggestionEnded, .leftOnTop: break
        }
    }

    /// Whether both differ in their evidence only.
    fileprivate func isOfType(of other: Self) -> Bool {
        var (own, other) = (self, other)
        own.removeEvidence()
        other.removeEvidence()
        return own == other
    }

    fileprivate init?(json: JSONValue) {
        func number(_ key: String) -> Double { json[key]?.numberValue?.double ?? 0 }
        switch json["type"]?.stringValue {
        case "start": self = .start
        case "person": self = .personsChoice
        case "relevance": self = .relevance(score: number("score"), rank: number("rank"))
        case "prediction":
            self = .prediction(
                probability: number("probability"), explanation: json["evidence"]?.stringValue ?? "")
        case "shortcut": self = .shortcut(role: json["role"]?.stringValue ?? "")
        case "suggestionEnded": self = .suggestionEnded
        case "leftOnTop": self = .leftOnTop
        default: return nil
        }
    }

    /// The reason in words.
    package var words: String { words(nil) }

    /// - Parameter ranks: ranks of the widget's scores, if they are known.
    func words(_ ranks: RelevanceRanks?) -> String {
        switch self {
        case .start: "there is no evidence for another widget"
        case .personsChoice: "the person turned the stack to it"
        case .relevance(let score, let rank):
            "its score of \(Self.rounded(score)) is "
                + (ranks?.superlative(of: score) ?? "above \(Self.rounded(rank * 100)) % of all of its scores")
        case .prediction(let probability, let explanation):
            "viewed with a probability of \(Self.rounded(probability * 100)) %"
                + (explanation.isEmpty ? "" : ": \(explanation)")
        case .shortcut(let role): "the app declared it relevant now" + (role.isEmpty ? "" : " (\(role))")
        case .suggestionEnded: "a suggestion is over"
        case .leftOnTop: "nothing is relevant any more, and the person left it on top"
        }
    }

    private static func rounded(_ value: Double) -> String {
        JSONNumber((value * 10).rounded() / 10)?.text ?? "\(value)"
    }
}
