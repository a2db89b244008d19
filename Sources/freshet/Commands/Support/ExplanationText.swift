import WidgetEvents
import WidgetModel
import WidgetRepresentation
import WidgetStore

/// An explanation as text: one labelled statement per line.
struct ExplanationText {
    let widget: WidgetExplanation
    let events: [ExplainedEvent]
    var refused: [RefusedRequest] = []
    var ignored: [EventOutcome] = []
    /// Registration of the widget's device.
    var registration: Registration?
    private var now: Timestamp { widget.readAt }

    var lines: [String] {
        var lines: [String] = []
        func add(_ label: String, _ text: String) {
            lines.append(label + String(repeating: " ", count: max(1, 11 - label.count)) + text)
        }
        let place = "\(widget.app) \(widget.kind) · \(widget.family?.name ?? "unknown family")"
        add("widget", "\(widget.widget) · \(place) · user \(widget.user) · device \(widget.device)")
        if let unreadable = widget.unreadable { add("unreadable", "not reloaded: \(unreadable)") }
        guard let timeline = widget.timeline, let explanation = widget.explanation else {
            let none = widget.isRemoved ? "none: the widget was removed" : "it is being replaced; ask again"
            add("timeline", widget.timelineID?.description ?? none)
            addRefused(add)
            return lines
        }
        let facts = timeline.facts
        add("timeline", widget.timelineID?.description ?? "")
        add("next", "\(explanation.next)")
        for note in explanation.notes { add("", "\(note)") }
        add("last", "\(explanation.last)")
        addRefused(add)
        add("requested", requested(facts))
        for event in events { for (index, text) in texts(of: event).enumerated() { add(index == 0 ? "by" : "", text) } }
        add("fetch", fetch(facts))
        add("eligible", eligible(explanation))
        add("policy", policy(facts))
        add("budget", budget(explanation))
        add("views", views(timeline, explanation))
        add("lane", facts.lease.map { "\(facts.lane.name), leased as claim \($0.token)" } ?? facts.lane.name)
        if let content = timeline.content {
            add("stored", "revision \(content.revision), \(content.bytes) bytes, \(content.storedAt.words(from: now))")
        }
        if let registration {
            let sentences = registration.sentences(storedRevision: timeline.content?.revision, at: now)
            for (index, text) in sentences.enumerated() { add(index == 0 ? "device" : "", text) }
        }
        return lines
    }

    private func addRefused(_ add: (String, String) -> Void) {
        for event in ignored { add("ignored", event.sentence { $0.words(from: now) }) }
        for letter in refused {
            let place = "\(letter.topic) partition \(letter.partition) offset \(letter.offset)"
            let sentence = Explanation.Sentence(
                "refused \(letter.receivedAt.words(from: now)): \(place): \(letter.code): \(letter.error)",
                .invalidEvent)
            add("refused", "\(sentence)")
        }
    }

    private func requested(_ facts: ReloadFacts) -> String {
        let parts = [
            "targeted \(facts.timeline.rendered)/\(facts.timeline.requested)",
            "everyone \(facts.timeline.generation)/\(facts.kind.current)",
        ]
        var open: [String] = []
        if facts.isStale { open.append("\(facts.pending) pending") }
        switch facts.sweepsAhead {
        case 0: break
        case let ahead?: open.append("\(ahead) to come from a sweep")
        case nil: open.append("more sweeps wait than are examined")
        }
        let state = open.isEmpty ? "all rendered" : open.joined(separator: ", ")
        return "\(state): \(parts.joined(separator: ", ")) (rendered/requested)"
    }

    private func texts(of event: ExplainedEvent) -> [String] {
        let cause = event.cause
        var parts = [cause.role.label]
        if let reason = cause.reason { parts.append("reason \(reason.name)") }
        if let time = cause.appliedAt { parts.append(time.words(from: now)) }
        var texts = [parts.joined(separator: " · ")]
        guard let topic = event.topic, let position = cause.position else { return texts }
        var place = "\(topic) partition \(position.partition) offset \(position.offset)"
        switch event.lookup {
        case .found(let envelope):
            place += " · id \(Text.printable(envelope.id, maximum: 256)) · \(envelope.type)"
            if let time = envelope.time { place += " · \(time.rfc3339)" }
        case .gone: place += " · no longer in Kafka"
        case .notLookedUp(let reason): place += " · not looked up: \(reason)"
        case nil: break
        }
        texts.append("  \(place)")
        return texts
    }

    private func fetch(_ facts: ReloadFacts) -> String {
        guard let renderedAt = facts.renderedAt else { return "never rendered" }
        var text = "rendered \(renderedAt.words(from: now))"
        if let time = facts.fetchTime { text += ", the last fetch took \(time.wholeMicroseconds / 1_000) ms" }
        return text
    }

    private func eligible(_ explanation: Explanation) -> String {
        let (time, rule) = explanation.eligible
        let budgeted = time <= now ? "now" : "\(Explanation.Sentence(time.words(from: now), rule))"
        let freeAt = explanation.facts.timeline.freeAt
        return "budgeted reasons \(budgeted), free ones \(freeAt <= now ? "now" : freeAt.words(from: now))"
    }

    private func policy(_ facts: ReloadFacts) -> String {
        facts.timeline.policyAt == .distantFuture
            ? "names no time" : "next \(facts.timeline.policyAt.words(from: now)), jitter included"
    }

    private func budget(_ explanation: Explanation) -> String {
        let budget = explanation.budget
        guard !budget.isLifted else { return "lifted by developer mode" }
        var text = "\(budget.reloadsADay) in 24 h: \(budget.left) left"
        if let next = budget.nextTokenAt { text += ", one more \(next.words(from: now))" }
        return text
    }

    private func views(_ timeline: WidgetExplanation.Timeline, _ explanation: Explanation) -> String {
        let views = timeline.facts.views
        func rate(_ number: Double) -> String { "\((number * 10).rounded() / 10)" }
        var parts = ["\(rate(views.viewsADay)) a day by \(timeline.widgets) widget\(timeline.widgets == 1 ? "" : "s")"]
        if views.isLearning(at: now) { parts.append("counts as often viewed while it is new") }
        parts.append(timeline.viewedAt.map { "last viewed \($0.words(from: now))" } ?? "never viewed")
        parts.append(
            explanation.isDormant ? "dormant" : "dormant \(explanation.rules.dormantAfter.words) after the last view")
        return parts.joined(separator: " · ")
    }
}

extension ExplainedCause.Role {
    fileprivate var label: String {
        switch self {
        case .request: "the latest request"
        case .decision: "the last decision"
        case .kind: "the latest reload of everyone"
        }
    }
}

extension Registration {
    /// Sentences about the device: what was sent, tried, waits and was fetched.
    ///
    /// - Parameter storedRevision: revision of the timeline's content, with which the fetched one is compared.
    func sentences(storedRevision: Int64?, at now: Timestamp) -> [String] {
        var sentences = [sentAt.map { "sent \($0.words(from: now)) by \(channel)" } ?? "never sent, by \(channel)"]
        if let triedAt, triedAt != sentAt {
            let answer = answer.map { $0 == 0 ? "not reached" : "answered \($0)" } ?? "no answer"
            sentences.append("last attempt \(triedAt.words(from: now)): \(answer)\(reason.map { " \($0)" } ?? "")")
        }
        if let apnsID { sentences.append("apns-id \(apnsID)") }
        if waiting > 0 {
            let when = nextAt.map { "to be sent \($0.words(from: now))" } ?? "its channel is disabled"
            sentences.append("\(waiting) \(waiting == 1 ? "change" : "changes") waiting: \(when)")
        }
        sentences.append(fetchedAt.map { "fetched \($0.words(from: now))" } ?? "has fetched nothing yet")
        guard let storedRevision, fetchedAt != nil else { return sentences }
        switch fetchedRevision {
        case nil: sentences.append("has not fetched this timeline")
        case let revision? where revision >= storedRevision: sentences.append("shows the stored revision")
        case let revision?: sentences.append("shows revision \(revision), older than the stored \(storedRevision)")
        }
        return sentences
    }
}
