// SPDX-License-Identifier: Apache-2.0

package import JSON

/// Plans which widget of a stack is on top during the next day, and which widgets are suggested (DESIGN.md, E and
/// F).
///
/// A widget's value is the greatest of its relevance's rank, the probability that the person looks at it, and the value
/// of a shortcut that holds. A widget whose entry has a score of 0 or below has none, and is not suggested; one whose
/// timed relevance is over has what habits and shortcuts say. The stack turns to the greatest value, and of equal ones
/// to that which began last; without any value it goes back to the widget that the person left on top. A recent
/// rotation and a recent turn by hand keep the present widget.
///
/// At most one suggestion is part of the stack at a time. Of several, those whose range holds come before those by
/// habit. Among ranges the shortest comes first, then the latest beginning; among habits the greatest probability, then
/// the most parameters; then the byte order of the contents. A suggestion stays while it holds, but after the minimum
/// stay it gives way to one whose range comes before. A suggestion does not begin before the timeline of its widget is
/// rendered. A turn by hand holds up those by habit: the person has just chosen, whereas a range is news of the app.
package struct StackPlanner: Sendable {
    /// Evidence about a widget of the stack.
    package struct Evidence: Sendable {
        package var curve: RelevanceCurve
        package var ranks: RelevanceRanks
        /// In the order of their times.
        package var predictions: [WidgetPrediction]
        /// Whether habits may predict views of the widget: not if its intent is not eligible for suggestions.
        package var isPredictable: Bool

        init(
            curve: RelevanceCurve = RelevanceCurve([]), history: RelevanceHistory = RelevanceHistory(),
            predictions: [WidgetPrediction] = [], isPredictable: Bool = true
        ) {
            self.isPredictable = isPredictable
            self.curve = curve
            self.ranks = RelevanceRanks(history, with: curve)
            self.predictions = predictions
        }
    }

    /// A shortcut, or content that the person views in the app, that may be suggested.
    package struct Candidate: Sendable {
        package var shortcut: RelevantShortcut
        /// Of its content, for one without ranges; in the order of their times.
        package var predictions: [WidgetPrediction] = []
        /// Number of parameters of the combination that is predicted; 0 for a shortcut.
        package var parameters = 0
        /// Whether the timeline of its widget has content.
        package var isRendered = true
        /// Relevance of its widget, once that has content.
        package var curve = RelevanceCurve([])
        /// Reason why it is never suggested into the stack; nil: it may be.
        package var obstacle: Obstacle?

        /// Returns false if all of its ranges lie outside a period. A shortcut without ranges may hold at any time.
        package func mayHold(in range: Range<Timestamp>) -> Bool {
            shortcut.ranges.isEmpty || shortcut.ranges.contains { $0.overlaps(range) }
        }

        fileprivate var isOfEligibleKind: Bool { obstacle != .unknownKind && obstacle != .ineligibleKind }

        fileprivate func isRelevant(at time: Timestamp) -> Bool { !curve.excludes(time) }
    }

    /// Reason for which a shortcut is not suggested into a stack at any time.
    package enum Obstacle: Hashable, Sendable {
        /// The app has no such kind.
        case unknownKind
        case ineligibleKind
        /// Another stack of the device takes it.
        case otherStack(String)
        /// Its kind has no content in the family of the stack.
        case family(WidgetFamily)
        /// Its values are no supported combination of parameters.
        case combination
    }

    package static let horizon: Duration = .seconds(86_400)

    package var stack: Stack
    package var policy = RotationPolicy()
    /// By widget; a widget without evidence has no value.
    package var evidence: [String: Evidence]
    package var candidates: [Candidate]
    /// Contents of the device's widgets, inside and outside of stacks: they are not suggested.
    package var shown: Set<WidgetContent>
    /// Number of suggestions during the last 24 h on the device.
    package var suggested: Int

    init(
        _ stack: Stack, evidence: [String: Evidence] = [:], candidates: [Candidate] = [],
        shown: Set<WidgetContent> = [], suggested: Int = 0
    ) {
        self.stack = stack
        self.evidence = evidence
        self.candidates = candidates
        self.shown = shown.union(stack.items.map(\.content))
        self.suggested = suggested
    }

    /// Plans from `now` to the ``horizon``.
    ///
    /// - Parameter previous: schedule whose rotations have been carried out until now.
    package func schedule(at now: Timestamp, after previous: StackSchedule = StackSchedule()) -> StackSchedule {
        guard !stack.items.isEmpty else { return StackSchedule() }
        var run = Run(planner: self, now: now, previous: previous)
        let end = now + Self.horizon
        let changes = changes(from: now, to: end)
        var next = changes.startIndex
        var time = now
        while time < end {
            let again = run.step(at: time)
            while next < changes.endIndex, changes[next] <= time { next += 1 }
            time = min(next < changes.endIndex ? changes[next] : end, again ?? end)
        }
        return run.schedule
    }

    /// Times at which a value or a candidate may change, in ascending order.
    private func changes(from now: Timestamp, to end: Timestamp) -> [Timestamp] {
        var times: Set<Timestamp> = []
        for item in stack.items {
            guard let evidence = evidence[item.widget] else { continue }
            times.formUnion(evidence.curve.changes)
            times.formUnion(evidence.predictions.map(\.from))
        }
        if candidates.contains(where: { !$0.isRendered }) { times.insert(now + StackPlan.renderTime) }
        for candidate in candidates {
            times.formUnion(candidate.shortcut.ranges.flatMap { [$0.lowerBound, $0.upperBound] })
            times.formUnion(candidate.predictions.map(\.from))
            times.formUnion(candidate.curve.changes)
        }
        return times.filter { now < $0 && $0 < end }.sorted()
    }

    /// Last turn by hand until a time, to a widget of the stack or of a suggestion.
    func turn(at time: Timestamp) -> Stack.Turn? {
        guard let turn = stack.chosen, turn.at <= time else { return nil }
        return stack.has(.widget(turn.widget)) || StackPlan.isSuggestion(widget: turn.widget) ? turn : nil
    }

    // MARK: Values

    /// Standing of a widget of the stack; nil without evidence.
    func standing(of item: Stack.Item, at time: Timestamp) -> StackSchedule.Standing? {
        let evidence = evidence[item.widget]
        if let evidence, evidence.curve.excludes(time) { return nil }
        var standings: [StackSchedule.Standing] = []
        if let evidence, let (score, since) = evidence.curve.relevance(at: time) {
            let rank = evidence.ranks.rank(of: score)
            standings.append(.init(value: rank, since: since, reason: .relevance(score: score, rank: rank)))
        }
        if let prediction = evidence?.predictions.last(where: { $0.from <= time }),
            prediction.probability >= policy.minimumPrediction
        {
            standings.append(.init(value: prediction.probability, since: nil, reason: prediction.reason))
        }
        let holding = candidates.first {
            $0.isOfEligibleKind && $0.shortcut.content == item.content && $0.shortcut.holds(at: time)
        }
        if let holding {
            let since = holding.shortcut.ranges.filter { $0.contains(time) }.map(\.lowerBound).max()
            standings.append(
                .init(value: policy.shortcutValue, since: since, reason: .shortcut(role: holding.shortcut.role)))
        }
        // With the newest evidence, so that further evidence never makes a widget older than another of its value.
        var standing = standings.max { $0.value < $1.value }
        standing?.since = standings.compactMap(\.since).max()
        return standing
    }

    /// Standing of a suggestion that is in the stack; nil if it does not hold.
    private func standing(ofSuggestion content: WidgetContent, at time: Timestamp) -> StackSchedule.Standing? {
        let fitting = candidates.filter { $0.shortcut.content == content }.compactMap { self.fitting($0, at: time) }
        return fitting.min(by: Fitting.precedes).map { fitting in
            StackSchedule.Standing(
                value: fitting.range == nil ? fitting.probability : policy.shortcutValue,
                since: fitting.range?.lowerBound, reason: fitting.reason)
        }
    }

    /// Standing of a widget of the stack or a suggestion.
    private func standing(of item: StackSchedule.Item, at time: Timestamp) -> StackSchedule.Standing? {
        switch item {
        case .widget(let id):
            stack.items.first { Text.equal($0.widget, id) }.flatMap { standing(of: $0, at: time) }
        case .suggestion(let content): standing(ofSuggestion: content, at: time)
        }
    }

    /// A candidate that may be suggested at a time.
    struct Fitting {
        /// Its range that holds and is the first in order; nil: it is suggested by habit.
        let range: Range<Timestamp>?
        /// Of a habit.
        let probability: Double
        /// Of the combination that the habit is known of.
        let parameters: Int
        let content: WidgetContent
        let reason: StackSchedule.Reason
        let isRendered: Bool
        /// False if its widget has a score of 0 or less.
        let isRelevant: Bool

        /// Whether its range comes before the suggestion of another one, the contents aside.
        func displaces(_ other: Fitting) -> Bool {
            guard let range else { return false }
            return other.range.map { Self.precedes(range, $0) } ?? true
        }

        /// The order in which candidates are suggested.
        static func precedes(_ left: Fitting, _ right: Fitting) -> Bool {
            if left.displaces(right) || right.displaces(left) { return left.displaces(right) }
            if left.probability != right.probability { return left.probability > right.probability }
            return left.parameters == right.parameters
                ? left.content < right.content : left.parameters > right.parameters
        }

        /// Whether a range is shorter, or as long and begins later.
        fileprivate static func precedes(_ left: Range<Timestamp>, _ right: Range<Timestamp>) -> Bool {
            let (own, other) = (left.upperBound - left.lowerBound, right.upperBound - right.lowerBound)
            return own == other ? left.lowerBound > right.lowerBound : own < other
        }
    }

    /// A candidate with the reason to suggest it at a time; nil if there is none.
    func fitting(_ candidate: Candidate, at time: Timestamp) -> Fitting? {
        let shortcut = candidate.shortcut
        guard stack.suggestions, candidate.obstacle == nil, !shown.contains(shortcut.content) else { return nil }
        func fitting(
            _ range: Range<Timestamp>?, probability: Double = 0, _ reason: StackSchedule.Reason
        ) -> Fitting {
            Fitting(
                range: range, probability: probability, parameters: candidate.parameters, content: shortcut.content,
                reason: reason,
                isRendered: candidate.isRendered, isRelevant: candidate.isRelevant(at: time))
        }
        guard shortcut.ranges.isEmpty else {
            let holding = shortcut.ranges.filter { $0.contains(time) }.min(by: Fitting.precedes)
            return holding.map { fitting($0, .shortcut(role: shortcut.role)) }
        }
        guard let prediction = candidate.predictions.last(where: { $0.from <= time }),
            prediction.probability >= policy.minimumSuggestion
        else { return nil }
        return fitting(nil, probability: prediction.probability, prediction.reason)
    }
}

extension WidgetPrediction {
    fileprivate var reason: StackSchedule.Reason { .prediction(probability: probability, explanation: explanation) }
}

extension StackPlanner {
    /// The course of a plan.
    private struct Run {
        let planner: StackPlanner
        private(set) var schedule = StackSchedule()
        /// The widget on top, under a suggested one.
        private var widget: String
        /// Earliest time of the next automatic rotation of the stack's own widgets.
        private var rests: Timestamp
        /// End of the time for which the last turn by hand is respected.
        private let respected: Timestamp
        private var suggested: Int
        private let now: Timestamp

        init(planner: StackPlanner, now: Timestamp, previous: StackSchedule) {
            let stack = planner.stack
            self.planner = planner
            self.now = now
            suggested = planner.suggested
            let base = stack.base ?? stack.items[0].widget
            var top = StackSchedule.Rotation(from: now, item: .widget(base), reason: .start)
            rests = .distantPast
            let own = previous.rotations.filter { stack.has($0.item) }
            // None has begun after a step of the clock back: the first one is the top, as before.
            let last = own.last { $0.from <= now } ?? own.first
            if let last {
                top = last
                top.from = min(last.from, now)
            }
            let rotated = own.last { $0.from <= now && $0.reason.isAutomatic }
            if let rotated { rests = rotated.from + planner.policy.minimumStay }
            let present = previous.top(at: now)
            let turn = planner.turn(at: now)
            let isOwn = turn.map { stack.has(.widget($0.widget)) } ?? false
            respected = turn.map { $0.at + planner.policy.respectForTurn } ?? .distantPast
            let isNew = turn.map { turn in present.map { $0.from < turn.at } ?? true } ?? false
            if let turn, isOwn, last == nil || top.from <= turn.at {
                top = StackSchedule.Rotation(from: turn.at, item: .widget(turn.widget), reason: .personsChoice)
            }
            widget = top.item.widget ?? base
            // The next plan, too, needs the rotation that the end of a suggestion hides.
            if let rotated, top.reason == .suggestionEnded, now < rests { schedule.rotations = [rotated] }
            schedule.rotations.append(top)
            guard let insertion = previous.insertion(at: now) else { return }
            schedule.insertions = [insertion]
            schedule.insertions[0].until = nil
            // A suggestion that the person has turned away from stays in the stack, not on top.
            let item = StackSchedule.Item.suggestion(insertion.content)
            if isNew, let turn {
                let isChosen = StackPlan.isSuggestion(widget: turn.widget, of: insertion.content)
                guard isChosen, insertion.from <= turn.at else { return }
                schedule.rotations.append(.init(from: turn.at, item: item, reason: .personsChoice))
            } else if let present, present.item == item {
                schedule.rotations.append(present)
            }
        }

        private var insertion: StackSchedule.Insertion? { schedule.insertions.last { $0.until == nil } }

        private var isOverLimit: Bool { suggested >= planner.policy.maximumSuggestionsPerDay }

        private var isSuggestionOnTop: Bool {
            schedule.rotations.last.map { $0.item.widget == nil } ?? false
        }

        private var isSuggestionChosen: Bool { isSuggestionOnTop && schedule.rotations.last?.reason == .personsChoice }

        /// Decides at a time.
        ///
        /// - Returns: when to decide again if nothing changes before.
        mutating func step(at time: Timestamp) -> Timestamp? {
            let suggests = suggest(at: time)
            let rotates = rotate(at: time)
            let records = recordStanding(at: time)
            let respected = respected > time ? respected : nil
            return [suggests, rotates, records, respected].compactMap { $0 }.min()
        }

        // MARK: Suggestions

        /// Ends a suggestion that does not hold any longer or gives way, and begins the next one.
        ///
        /// - Returns: when a suggestion gives way to another one.
        private mutating func suggest(at time: Timestamp) -> Timestamp? {
            let fitting = planner.candidates.compactMap { planner.fitting($0, at: time) }
            let isReady = time >= now + StackPlan.renderTime
            let eligible = fitting.filter { fitting in
                guard fitting.isRelevant, fitting.isRendered || isReady else { return false }
                guard let range = fitting.range else { return time >= respected }
                // No device could show it before, and what was not shown does not count to the day's limit.
                return range.upperBound - time >= StackSchedule.Insertion.showingTime
            }
            let first = eligible.min(by: Fitting.precedes)
            let wasOnTop = isSuggestionOnTop
            if let present = insertion {
                let own = fitting.filter { $0.content == present.content && ($0.isRelevant || isSuggestionChosen) }
                if let own = own.min(by: Fitting.precedes) {
                    guard let first, first.content != present.content, first.displaces(own), !isOverLimit else {
                        return nil
                    }
                    let end = present.from + planner.policy.minimumStay
                    guard time >= end else { return end }
                }
                schedule.insertions[schedule.insertions.count - 1].until = time
                if time == now, schedule.insertions.last?.counts == false { suggested -= 1 }
            }
            guard let best = first, !isOverLimit else {
                if wasOnTop { restore(at: time) }
                return nil
            }
            suggested += 1
            schedule.insertions.append(
                StackSchedule.Insertion(from: time, until: nil, content: best.content, reason: best.reason))
            show(.suggestion(best.content), best.reason, at: time)
            return nil
        }

        /// Turns back to the widget that was on top before the suggestion.
        private mutating func restore(at time: Timestamp) {
            show(.widget(widget), .suggestionEnded, at: time)
        }

        // MARK: Rotations

        private mutating func rotate(at time: Timestamp) -> Timestamp? {
            guard planner.stack.smartRotate, time >= respected, !isSuggestionOnTop else { return nil }
            var (widgets, standings) = ([String](), [StackSchedule.Standing]())
            for item in planner.stack.items {
                guard let standing = planner.standing(of: item, at: time) else { continue }
                // The present widget first: it stays if nothing distinguishes another one.
                let index = Text.equal(item.widget, widget) ? 0 : widgets.count
                widgets.insert(item.widget, at: index)
                standings.insert(standing, at: index)
            }
            let best = StackSchedule.Standing.best(of: standings)
            guard let next = best.map({ widgets[$0] }) ?? planner.stack.base, !Text.equal(next, widget) else {
                return nil
            }
            guard time >= rests else { return rests }
            widget = next
            if let best {
                rests = time + planner.policy.minimumStay
                show(.widget(widget), standings[best].reason, at: time)
            } else {
                show(.widget(widget), .leftOnTop, at: time)
            }
            return nil
        }

        /// Notes how much speaks for the widget on top.
        ///
        /// - Returns: when to look again, if it has changed too often.
        private mutating func recordStanding(at time: Timestamp) -> Timestamp? {
            guard let item = schedule.rotations.last?.item else { return nil }
            let top = StackSchedule.TopStanding(
                from: time, item: item, standing: planner.standing(of: item, at: time))
            let last = schedule.standings.last
            if let last, top.repeats(last) { return nil }
            if let earlier = schedule.standings.dropLast().last, earlier.item == item, last?.item == item {
                let next = earlier.from + StackSchedule.standingSpacing
                guard time >= next else { return next }
            }
            schedule.standings.append(top)
            return nil
        }

        private mutating func show(_ item: StackSchedule.Item, _ reason: StackSchedule.Reason, at time: Timestamp) {
            // Of two at one time, such as the end of a suggestion and what follows, only the last one is seen.
            if schedule.rotations.count > 1, schedule.rotations.last?.from == time { schedule.rotations.removeLast() }
            guard schedule.rotations.last?.item != item else { return }
            schedule.rotations.append(StackSchedule.Rotation(from: time, item: item, reason: reason))
        }
    }
}

extension Stack {
    fileprivate func has(_ item: StackSchedule.Item) -> Bool {
        guard let id = item.widget else { return false }
        return items.contains { Text.equal($0.widget, id) }
    }
}

extension StackSchedule.Reason {
    /// Whether Freshet turned the stack for this reason.
    fileprivate var isAutomatic: Bool {
        switch self {
        case .start, .personsChoice, .leftOnTop, .suggestionEnded: false
        case .relevance, .prediction, .shortcut: true
        }
    }
}

/// Reasons for the position of each widget of a stack, and of each possible suggestion, at a time.
package struct StackExplanation: Hashable, Sendable {
    /// A widget of the stack, or one that may be suggested.
    package struct Item: Hashable, Sendable {
        /// Id of the widget; nil: a suggestion.
        package var widget: String?
        package var content: WidgetContent
        package var isOnTop: Bool
        /// Value by which it competes, from 0 to 1; nil for suggestions, and for widgets without evidence.
        package var value: Double?
        package var sentence: String
    }

    package var items: [Item]
    /// Reason why the stack does not rotate now, regardless of the values; nil: it may rotate.
    package var hold: String?

    package init(of planner: StackPlanner, plan: StackPlan, at time: Timestamp) {
        let top = plan.schedule.top(at: time)
        hold = planner.hold(plan: plan, at: time)
        items = planner.stack.items.map { item in
            let isOnTop = top.map { $0.item == .widget(item.widget) } ?? false
            let found = planner.standing(of: item, at: time)
            let ranks = planner.evidence[item.widget]?.ranks
            var sentence = found?.reason.words(ranks) ?? planner.missingEvidence(of: item, at: time)
            if isOnTop, let top {
                sentence = "on top since \(top.from.rfc3339): \(top.reason.words(ranks)); now \(sentence)"
            }
            return Item(
                widget: item.widget, content: item.content, isOnTop: isOnTop, value: found?.value, sentence: sentence)
        }
        items += planner.candidates.map { candidate in
            let content = candidate.shortcut.content
            let isOnTop = top.map { $0.item == .suggestion(content) } ?? false
            let sentences = planner.sentences(of: candidate, plan: plan, at: time)
            return Item(
                widget: nil, content: content, isOnTop: isOnTop, value: nil,
                sentence: sentences.joined(separator: "; "))
        }
    }

    /// Reason why a stack without a plan does not rotate.
    ///
    /// - Parameter isRead: whether its schedule has been read.
    package static func unplannedHold(isRead: Bool) -> String {
        isRead
            ? "its first plan is due: this is what it would say now"
            : "nobody has read its schedule: it is planned from the first read on, and this is what the plan would say"
    }

    package var json: JSONValue {
        [
            "hold": .text(hold),
            "items": .array(
                items.map { item in
                    [
                        "widget": .text(item.widget), "kind": .string(item.content.kind),
                        "configuration": item.content.configuration.value, "top": .bool(item.isOnTop),
                        "value": .rounded(item.value), "why": .string(item.sentence),
                    ]
                }),
        ]
    }
}

extension StackPlanner {
    fileprivate func hold(plan: StackPlan, at time: Timestamp) -> String? {
        let respect = respect(at: time)
        guard stack.smartRotate else {
            let off = "Smart Rotate is off: only the person turns to another widget of the stack"
            guard stack.suggestions else { return off }
            return off
                + (respect.map { "; no suggestion by habit begins: \($0)" } ?? "; suggestions can still come on top")
        }
        if let respect { return respect }
        guard let last = plan.schedule.top(at: time) else { return nil }
        guard last.item.widget != nil else {
            let end = plan.schedule.insertion(at: time)?.until.map { " until \($0.rfc3339)" } ?? ""
            return "a suggestion is on top\(end): the stack's widgets do not rotate meanwhile"
        }
        let rotated = plan.schedule.rotations.last { $0.from <= time && $0.item.widget != nil && $0.reason.isAutomatic }
        guard let rotated, time < rotated.from + policy.minimumStay else { return nil }
        let end = (rotated.from + policy.minimumStay).rfc3339
        return "it turned at \(rotated.from.rfc3339) and stays until at least \(end)"
    }

    /// The turn by hand that is respected at a time, in words; nil: none.
    private func respect(at time: Timestamp) -> String? {
        guard let turn = turn(at: time), time < turn.at + policy.respectForTurn else { return nil }
        let end = (turn.at + policy.respectForTurn).rfc3339
        return "the person turned the stack at \(turn.at.rfc3339), which is respected until \(end)"
    }

    /// Reason why a widget of the stack has no value.
    fileprivate func missingEvidence(of item: Stack.Item, at time: Timestamp) -> String {
        if let curve = evidence[item.widget]?.curve, curve.excludes(time) {
            return "its score is 0 or less now, so the stack does not rotate to it"
        }
        let prediction = evidence[item.widget]?.predictions.last { $0.from <= time }
        guard let prediction, prediction.probability > 0 else {
            guard evidence[item.widget]?.isPredictable != false else {
                return "there is no evidence for it: no relevance or shortcut, and its intent is not eligible for "
                    + "suggestions, so that habits predict nothing"
            }
            return "there is no evidence for it: no relevance, habit or shortcut"
        }
        let reason = StackSchedule.Reason.prediction(
            probability: prediction.probability, explanation: prediction.explanation)
        return "\(reason.words), below the minimum of \(Int(policy.minimumPrediction * 100)) %"
    }

    /// Most times of a candidate that are listed.
    private static let listedTimes = 6

    /// The times at which a candidate is in the stack from a time on, and those at which it is not although it might
    /// be, with the reasons.
    fileprivate func sentences(of candidate: Candidate, plan: StackPlan, at time: Timestamp) -> [String] {
        let (content, ranges) = (candidate.shortcut.content, candidate.shortcut.ranges)
        let insertions = plan.schedule.insertions.filter {
            $0.content == content && $0.until ?? .distantFuture > time
        }
        let planned = insertions.map { insertion in
            let from = insertion.from.rfc3339
            let until = insertion.until.map { " until \($0.rfc3339)" } ?? ""
            return (from: insertion.from, "in the stack from \(from)\(until): \(insertion.reason.words)")
        }
        guard !shown.contains(content) else { return ["not suggested: the device already shows this widget"] }
        if let obstacle = candidate.obstacle { return ["not suggested: \(obstacle.words)"] }
        guard stack.suggestions else { return ["not suggested: suggestions are off for this stack"] }
        guard !ranges.isEmpty else {
            if !planned.isEmpty { return planned.map(\.1) }
            guard let fitting = fitting(candidate, at: time) else {
                return ["not suggested: no habit makes it likely now"]
            }
            return ["not suggested now: \(rejectionReason(of: fitting, plan: plan, at: time))"]
        }
        let dropped = ranges.filter { range in
            range.upperBound > time
                && !insertions.contains { $0.from < range.upperBound && range.lowerBound < $0.until ?? .distantFuture }
        }
        let all =
            planned
            + dropped.map { ($0.lowerBound, dropReason(of: candidate, at: max(time, $0.lowerBound), plan, time)) }
        guard !all.isEmpty else { return ["not suggested: its time is over"] }
        let sentences = all.sorted { $0.0 < $1.0 }.map(\.1)
        let rest = sentences.count - Self.listedTimes
        return rest > 0 ? sentences.prefix(Self.listedTimes) + ["and \(rest) more times"] : sentences
    }

    /// Reason why a shortcut is not suggested in one of its ranges.
    private func dropReason(
        of candidate: Candidate, at begin: Timestamp, _ plan: StackPlan, _ time: Timestamp
    ) -> String {
        guard begin < plan.until, let fitting = fitting(candidate, at: begin) else {
            return "not suggested yet: its time begins at \(begin.rfc3339)"
        }
        let reason = rejectionReason(of: fitting, plan: plan, at: begin)
        return begin == time
            ? "not suggested now: \(reason)" : "not suggested at \(begin.rfc3339), when its time begins: \(reason)"
    }

    /// Reason why the plan leaves out a shortcut that fits at a time.
    private func rejectionReason(of fitting: Fitting, plan: StackPlan, at time: Timestamp) -> String {
        guard fitting.isRelevant else { return "the score of its widget is 0 or less" }
        let planned = plan.schedule.insertions.count {
            $0.from <= time && $0.counts && !plan.suggestedAt.contains($0.from)
        }
        guard suggested + planned < policy.maximumSuggestionsPerDay else {
            return "the app has had its \(policy.maximumSuggestionsPerDay) suggestions on this device in 24 hours"
        }
        if fitting.range == nil, let respect = respect(at: time) { return respect }
        guard fitting.isRendered || time >= plan.plannedAt + StackPlan.renderTime else {
            return "its timeline is not rendered yet"
        }
        return "another suggestion comes first"
    }
}

extension StackPlanner.Obstacle {
    fileprivate var words: String {
        switch self {
        case .unknownKind: "the app has no such kind"
        case .ineligibleKind: "its kind is not eligible for suggestions"
        case .otherStack(let name): "the stack \(name) of the device takes it"
        case .family(let family): "its kind does not support \(family.name), the family of this stack"
        case .combination:
            "its values are no supported combination of its kind"
        }
    }
}
