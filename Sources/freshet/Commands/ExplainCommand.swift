// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import KafkaClient
import WidgetAPI
import WidgetEvents
import WidgetModel
import WidgetStore

struct ExplainCommand: AppCommand {
    static let configuration = CommandConfiguration(
        commandName: "explain",
        abstract: "Explains why a widget did or did not reload, and when it will reload next.",
        discussion: """
            Shows requested and rendered reloads with their events, the last decision with its rule, the rest of the \
            budget, the next due time and its reason. The events' ids and times are read from Kafka, if \
            kafka.bootstrapServers is set and the log still has them.

            --history shows the last \(DecisionRecord.kept) decisions on the widget's timeline instead.

            --stack explains a stack of --user instead: which widget is on top and why, why the others are not, and what is \
            planned for the next 24 hours.

            Examples:
              freshet explain --app com.example.bank w1
              freshet explain --app com.example.bank --user u42 --stack home
              freshet explain --app com.example.bank w1 --json
              freshet explain --app com.example.bank w1 --history
            """)

    @Argument(help: "The widget's id.")
    var widget: String?

    @Option(help: "A stack of --user, in place of a widget.")
    var stack: String?

    @Option(help: "The user of the stack.")
    var user: String?

    @Option(help: "The device of the stack; all devices otherwise.")
    var device: String?

    @Flag(help: "Show the last decisions on the widget's timeline, latest first.")
    var history = false

    @OptionGroup var options: AppOptions

    func validate() throws {
        let names = "expected a widget's id, or --stack and --user"
        guard (widget == nil) == (stack != nil), (stack == nil) == (user == nil) else { throw ValidationError(names) }
        guard stack == nil || !history else { throw ValidationError("--history: expected with a widget") }
    }

    func run(_ store: WidgetStore, _ settings: Settings) async throws {
        if let stack, let user { return try await explainStack(stack, of: user, store, settings) }
        guard let widget else { return }
        let ignored = try await store.query(.ignoredEvents(app: app, widget: widget))
        guard let explanation = try await store.query(.readExplanation(app: app, widget: widget)).first else {
            let events = ignored.map { "; ignored: \($0.sentence())" }.joined()
            throw CommandFailure(.failure, "app \(Text.quoted(app)) has no widget \(Text.quoted(widget))\(events)")
        }
        if history { return showHistory(explanation.timeline?.history ?? []) }
        let reader = settings.namedKafka.map { KafkaReader(configuration: $0, logger: .ofCommands) }
        let lookup = EventLookup(reader: reader, topics: settings.topics.inputs, sorts: settings.topics.inputSorts)
        let explained = try await ExplainedWidget(explanation, ignored: ignored, lookup: lookup, from: store)
        output.print(explained.json, or: explained.lines.joined(separator: "\n"))
    }

    private func showHistory(_ history: [DecisionRecord]) {
        output.print(
            history.map(\.json),
            columns: [
                "TIME": "at", "DECISION": "decision", "RULE": "rule", "REASON": "reason",
                "FETCH MS": "fetchMilliseconds", "MEANING": "text",
            ])
        if history.isEmpty { Terminal.complain("nothing has been decided yet") }
    }

    /// Explains the stacks of a name, one on each device.
    func explainStack(_ name: String, of user: String, _ store: WidgetStore, _ settings: Settings) async throws {
        let stacks = try await store.explainStacks(
            named: name, of: user, app: app, policy: settings.stacks, at: Timestamp.now()
        ).filter { stack in device.map { Text.equal($0, stack.stack.device) } ?? true }
        guard !stacks.isEmpty else {
            throw CommandFailure(
                .failure,
                "user \(Text.quoted(user)) of app \(Text.quoted(app)) has no stack \(Text.quoted(name)) with widgets")
        }
        output.print(
            .array(stacks.map(\.json)),
            or: stacks.map(Self.text).joined(separator: "\n\n"))
    }

    private static func text(_ stack: ExplainedStack) -> String {
        var lines = ["stack \(stack.stack.name) on device \(stack.stack.device)"]
        if let hold = stack.explanation.hold { lines.append("  held: \(hold)") }
        lines += ["", "now"]
        for item in stack.explanation.items {
            let name = item.widget ?? "suggestion of \(item.content.kind) \(item.content.configuration.canonical)"
            let value = item.value.map { " (value \(JSONValue.rounded($0).canonical))" } ?? ""
            lines.append("  \(item.isOnTop ? "*" : " ") \(name)\(value): \(item.sentence)")
        }
        lines += ["", "until \(stack.plan.until.rfc3339)"]
        for rotation in stack.plan.schedule.rotations {
            lines.append("  \(rotation.from.rfc3339)  \(name(of: rotation.item)): \(rotation.reason.words)")
        }
        return lines.joined(separator: "\n")
    }

    private static func name(of item: StackSchedule.Item) -> String {
        switch item {
        case .widget(let id): id
        case .suggestion(let content): "suggestion of \(content.kind) \(content.configuration.canonical)"
        }
    }
}

extension ExplainedWidget {
    private var widget: WidgetExplanation { explanation }
    private var now: Timestamp { widget.readAt }

    /// The explanation as text: one labelled statement per line.
    fileprivate var lines: [String] {
        var lines: [String] = []
        func add(_ label: String, text: String) {
            lines.append(label + String(repeating: " ", count: max(1, 11 - label.count)) + text)
        }
        let place = "\(widget.app) \(widget.kind) · \(widget.family?.name ?? "unknown family")"
        add("widget", text: "\(widget.widget) · \(place) · user \(widget.user) · device \(widget.device)")
        for found in unready {
            let obstacle = found.obstacle
            add(
                obstacle.isSlow ? "slow" : "not ready",
                text: "\(obstacle.name) (\(found.processWords)): \(obstacle.reason)")
        }
        if let unreadable = widget.unreadable { add("unreadable", text: "not reloaded: \(unreadable)") }
        guard let timeline = widget.timeline, let explanation = widget.explanation else {
            let none = widget.isRemoved ? "none: the widget was removed" : "it is being replaced; ask again"
            add("timeline", text: widget.timelineID?.description ?? none)
            addRefused(add)
            return lines
        }
        let facts = timeline.facts
        add("timeline", text: widget.timelineID?.description ?? "")
        add("next", text: "\(explanation.next)")
        for note in explanation.notes { add("", text: "\(note)") }
        add("last", text: "\(explanation.last)")
        if let failure {
            add("", text: "latest failure of \(failure.provider): \(failure.message) \(failure.at.words(from: now))")
        }
        addRefused(add)
        add("requested", text: requested(facts))
        for event in events {
            for (index, text) in texts(of: event).enumerated() { add(index == 0 ? "by" : "", text: text) }
        }
        add("fetch", text: fetch(facts))
        add("eligible", text: eligible(explanation))
        add("policy", text: policy(facts))
        add("budget", text: explanation.budget)
        add("views", text: views(timeline, explanation))
        add("lane", text: facts.lease.map { "\(facts.lane.name), leased as claim \($0.token)" } ?? facts.lane.name)
        if let content = timeline.content {
            add(
                "stored",
                text: "revision \(content.revision), \(content.bytes) bytes, \(content.storedAt.words(from: now))")
        }
        if let registration = registration {
            let sentences = registration.sentences(storedRevision: timeline.content?.revision, at: now)
            for (index, text) in sentences.enumerated() { add(index == 0 ? "device" : "", text: text) }
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
        case .found(let found):
            place += " · id \(Text.printable(found.id, maximum: 256)) · \(found.event.type.rawValue)"
            if let time = found.time { place += " · \(time.rfc3339)" }
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
