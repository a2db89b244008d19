/// Why a widget is on top of a stack at a time, and why others are not.
package struct StackExplanation: Hashable, Sendable {
    /// A widget of the stack, or one that may be suggested.
    package struct Item: Hashable, Sendable {
        /// Id of the widget; nil: a suggestion.
        package var widget: String?
        package var content: WidgetContent
        package var isOnTop: Bool
        /// Value by which it competes, from 0 to 1; nil: nothing speaks for it.
        package var value: Double?
        package var sentence: String
    }

    package var items: [Item]
    /// Why the stack does not turn now, whatever the values are; nil: it may.
    package var hold: String?

    package init(of planner: StackPlanner, plan: StackPlan, at time: Timestamp) {
        let top = plan.schedule.top(at: time)
        hold = planner.hold(plan: plan, at: time)
        items = planner.stack.items.map { item in
            let isOnTop = top.map { $0.item == .widget(item.widget) } ?? false
            let found = planner.value(of: item, at: time)
            var sentence = found.map { $0.reason.words } ?? planner.lack(of: item, at: time)
            if isOnTop, let top { sentence = "on top since \(top.from.rfc3339): \(top.reason.words); now \(sentence)" }
            return Item(
                widget: item.widget, content: item.content, isOnTop: isOnTop, value: found?.value, sentence: sentence)
        }
        items += planner.candidates.map { candidate in
            let content = candidate.shortcut.content
            let isOnTop = top.map { $0.item == .suggestion(content) } ?? false
            let insertion = plan.schedule.insertions.first { $0.content == content && ($0.until ?? time) >= time }
            var sentence = planner.lack(of: candidate, at: time)
            if let insertion {
                let from = insertion.from.rfc3339
                let until = insertion.until.map { " until \($0.rfc3339)" } ?? ""
                sentence = "in the stack from \(from)\(until): \(insertion.reason.words)"
            }
            return Item(widget: nil, content: content, isOnTop: isOnTop, value: nil, sentence: sentence)
        }
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
        guard stack.smartRotate else { return "Smart Rotate is off: only the person turns the stack" }
        if let turn = stack.chosen, time < turn.at + policy.respectForTurn, turn.at <= time {
            let end = (turn.at + policy.respectForTurn).rfc3339
            return "the person turned the stack at \(turn.at.rfc3339), which is respected until \(end)"
        }
        guard let last = plan.schedule.top(at: time) else { return nil }
        switch last.reason {
        case .start, .personsChoice: return nil
        case .relevance, .prediction, .shortcut, .suggestionEnded:
            let end = last.from + policy.minimumStay
            return time < end ? "it turned at \(last.from.rfc3339) and stays until \(end.rfc3339) at least" : nil
        }
    }

    /// Why nothing speaks for a widget.
    fileprivate func lack(of item: Stack.Item, at time: Timestamp) -> String {
        if let score = evidence[item.widget]?.curve.score(at: time), score <= 0 {
            return "its score is 0 or less: the stack never turns to it"
        }
        let prediction = evidence[item.widget]?.predictions.last { $0.from <= time }
        guard let prediction, prediction.probability > 0 else {
            return "neither relevance nor a habit nor a shortcut speaks for it"
        }
        let reason = StackSchedule.Reason.prediction(
            probability: prediction.probability, explanation: prediction.explanation)
        return "\(reason.words), less than the \(Int(policy.minimumPrediction * 100)) % that it takes"
    }

    /// Why a shortcut is not suggested.
    fileprivate func lack(of candidate: Candidate, at time: Timestamp) -> String {
        let content = candidate.shortcut.content
        guard !shown.contains(content) else { return "not suggested: the device shows such a widget" }
        guard stack.suggestions else {
            return "not suggested: suggestions are off for this stack, or another one of the device takes them"
        }
        guard fitting(candidate, at: time) == nil else {
            guard suggested < policy.maximumSuggestionsPerDay else {
                return
                    "not suggested: the app has had its \(policy.maximumSuggestionsPerDay) suggestions on this device "
                    + "in 24 hours"
            }
            return candidate.isRendered
                ? "not suggested: another suggestion, or the person's turn, comes first"
                : "not suggested yet: its timeline is not rendered"
        }
        if let next = candidate.shortcut.ranges.first(where: { $0.lowerBound > time }) {
            return "not suggested yet: its time begins at \(next.lowerBound.rfc3339)"
        }
        return candidate.shortcut.ranges.isEmpty
            ? "not suggested: no habit makes it likely now" : "not suggested: its time is over"
    }
}
