package import JSON

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
            let found = planner.value(of: item, at: time)
            var sentence = found.map { $0.reason.words } ?? planner.missingEvidence(of: item, at: time)
            if isOnTop, let top { sentence = "on top since \(top.from.rfc3339): \(top.reason.words); now \(sentence)" }
            return Item(
                widget: item.widget, content: item.content, isOnTop: isOnTop, value: found?.value, sentence: sentence)
        }
        items += planner.candidates.map { candidate in
            let content = candidate.shortcut.content
            let isOnTop = top.map { $0.item == .suggestion(content) } ?? false
            let insertion = plan.schedule.insertions.first {
                $0.content == content && $0.until ?? .distantFuture > time
            }
            var sentence = planner.rejectionReason(of: candidate, plan: plan, at: time)
            if let insertion {
                let from = insertion.from.rfc3339
                let until = insertion.until.map { " until \($0.rfc3339)" } ?? ""
                sentence = "in the stack from \(from)\(until): \(insertion.reason.words)"
            }
            return Item(widget: nil, content: content, isOnTop: isOnTop, value: nil, sentence: sentence)
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
            return off + (respect.map { "; no suggestion begins: \($0)" } ?? "; suggestions can still come on top")
        }
        if let respect { return respect }
        guard let last = plan.schedule.top(at: time) else { return nil }
        guard last.item.widget != nil else {
            let end = plan.schedule.insertion(at: time)?.until.map { " until \($0.rfc3339)" } ?? ""
            return "a suggestion is on top\(end): the stack's widgets do not rotate meanwhile"
        }
        let end = last.from + policy.minimumStay
        guard time < end else { return nil }
        switch last.reason {
        case .start, .personsChoice: return nil
        case .relevance, .prediction, .shortcut:
            return "it turned at \(last.from.rfc3339) and stays until at least \(end.rfc3339)"
        case .suggestionEnded:
            return "a suggestion ended at \(last.from.rfc3339), and the stack stays until at least \(end.rfc3339)"
        }
    }

    /// The turn by hand that is respected at a time, in words; nil: none.
    private func respect(at time: Timestamp) -> String? {
        guard let turn = turn(at: time), time < turn.at + policy.respectForTurn else { return nil }
        let end = (turn.at + policy.respectForTurn).rfc3339
        return "the person turned the stack at \(turn.at.rfc3339), which is respected until \(end)"
    }

    /// Reason why a widget of the stack has no value.
    fileprivate func missingEvidence(of item: Stack.Item, at time: Timestamp) -> String {
        if let score = evidence[item.widget]?.curve.score(at: time), score <= 0 {
            return "its score is 0 or less now, so the stack does not rotate to it"
        }
        let prediction = evidence[item.widget]?.predictions.last { $0.from <= time }
        guard let prediction, prediction.probability > 0 else {
            return "there is no evidence for it: no relevance, habit or shortcut"
        }
        let reason = StackSchedule.Reason.prediction(
            probability: prediction.probability, explanation: prediction.explanation)
        return "\(reason.words), below the minimum of \(Int(policy.minimumPrediction * 100)) %"
    }

    /// Reason why a shortcut is not suggested.
    fileprivate func rejectionReason(of candidate: Candidate, plan: StackPlan, at time: Timestamp) -> String {
        guard !shown.contains(candidate.shortcut.content) else {
            return "not suggested: the device already shows this widget"
        }
        if let obstacle = candidate.obstacle { return "not suggested: \(obstacle.words)" }
        guard stack.suggestions else { return "not suggested: suggestions are off for this stack" }
        if let fitting = fitting(candidate, at: time) {
            return "not suggested now: \(rejectionReason(of: fitting, plan: plan, at: time))"
        }
        guard !candidate.shortcut.ranges.isEmpty else { return "not suggested: no habit makes it likely now" }
        guard let next = candidate.shortcut.ranges.map(\.lowerBound).filter({ $0 > time }).min() else {
            return "not suggested: its time is over"
        }
        guard next < plan.until, let fitting = fitting(candidate, at: next) else {
            return "not suggested yet: its time begins at \(next.rfc3339)"
        }
        let reason = rejectionReason(of: fitting, plan: plan, at: next)
        return "not suggested at \(next.rfc3339), when its time begins: \(reason)"
    }

    /// Reason why the plan leaves out a shortcut that fits at a time.
    private func rejectionReason(of fitting: Fitting, plan: StackPlan, at time: Timestamp) -> String {
        guard fitting.isRelevant else { return "the score of its widget is 0 or less" }
        let planned = plan.schedule.insertions.count { $0.from <= time && !plan.suggestedAt.contains($0.from) }
        guard suggested + planned < policy.maximumSuggestionsPerDay else {
            return "the app has had its \(policy.maximumSuggestionsPerDay) suggestions on this device in 24 hours"
        }
        if let respect = respect(at: time) { return respect }
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
            "it has no ranges, and its values are no supported combination of its kind, so that no habit is known"
        }
    }
}
