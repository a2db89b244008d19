// SPDX-License-Identifier: Apache-2.0

package import JSON
package import KafkaClient
import Synchronization
package import WidgetEvents
package import WidgetModel
package import WidgetStore

/// Why a widget shows what it shows, for the API, the console and the commands.
package struct ExplainedWidget: Sendable {
    package let explanation: WidgetExplanation
    /// Causes with their events in Kafka.
    package let events: [ExplainedEvent]
    /// Requests for the widget that became dead letters, latest first.
    package let refused: [DeadLetterSummary]
    /// Lifecycle events of the widget without effect, latest first.
    package let ignored: [EventOutcome]
    /// Of the widget's device.
    package let registration: Registration?
    /// Dependencies that processes of the installation are not ready for, or find slow.
    package let unready: [RoleObstacle]
    /// The latest failure of its provider; nil unless its last fetch failed.
    package let failure: ReportedFailure?
}

extension ExplainedWidget {
    /// Explains a widget of an app.
    ///
    /// - Parameters:
    ///   - ignored: lifecycle events without effect; they are all that there is of an unknown widget.
    ///   - isForTenant: whether reasons that may name other apps are left out.
    package init(
        _ explanation: WidgetExplanation, ignored: [EventOutcome], lookup: EventLookup, from store: WidgetStore,
        isForTenant: Bool = false
    )
        async throws
    {
        let app = explanation.app
        self.explanation = explanation
        self.ignored = ignored
        let keys = [explanation.widget, explanation.user, explanation.device]
        // A reader's role may not have been granted a new table yet.
        let processes = (try? await store.query(.listProcesses())) ?? []
        let unready = processes.obstacles()
        self.unready = isForTenant ? unready.map(\.withoutForeignDetails) : unready
        let facts = explanation.timeline?.facts
        failure =
            facts?.decision == .failed
            ? processes.failures(of: app).first { failure in
                facts?.provider.map { Text.equal($0, failure.provider) } ?? false
            } : nil
        refused = try await store.query(.refusedRequests(app: app, keys: keys))
        events = await lookup.events(explanation.timeline?.causes ?? [], of: app)
        registration = try await store.query(
            .listRegistrations(
                app: app, user: explanation.user, device: explanation.device, timeline: explanation.timelineID)
        ).first
    }

    package var json: JSONValue {
        let widget = explanation
        var object: JSONObject = [
            "app": .string(widget.app), "widget": .string(widget.widget), "kind": .string(widget.kind),
            "family": .text(widget.family?.name), "user": .string(widget.user), "device": .string(widget.device),
            "removed": .bool(widget.isRemoved), "timeline": .text(widget.timelineID?.description),
        ]
        if let timeline = widget.timeline, let explanation = widget.explanation {
            let facts = timeline.facts
            object["status"] = .string(explanation.status.rawValue)
            object["next"] = explanation.nextJSON
            object["lastDecision"] = explanation.lastJSON
            object["notes"] = .array(explanation.notes.map(\.json))
            object["requests"] = facts.requestsJSON
            object["events"] = .array(events.map(\.json))
            object["budget"] = explanation.budgetJSON
            object["views"] = widget.viewsJSON(timeline, explanation)
            object["lastFetch"] = facts.fetchJSON
            object["age"] = .seconds(facts.age)
            object["lane"] = .string(facts.lane.name)
            object["lease"] = facts.lease.map { ["claim": .count($0.token), "endsAt": .time($0.endsAt)] } ?? .null
            object["pausedAt"] = ["kind": .time(facts.kindPause?.at), "app": .time(facts.appPause?.at)]
            object["pause"] = ["kind": facts.kindPause?.json ?? .null, "app": facts.appPause?.json ?? .null]
            object["shows"] = timeline.shownJSON
            object["outage"] = facts.outage?.json ?? .null
            object["providerFailure"] = failure.map { ["message": .string($0.message), "at": .time($0.at)] } ?? .null
            object["history"] = .array(timeline.history.map(\.json))
        } else {
            let isReplaced = !widget.isRemoved && widget.timeline == nil
            object["status"] = .string(widget.isRemoved ? "removed" : isReplaced ? "replaced" : "unreadable")
        }
        if let unreadable = widget.unreadable { object["unreadable"] = .string(unreadable) }
        object["refused"] = .array(refused.map(\.refusedJSON))
        object["ignored"] = .array(ignored.map(\.json))
        object["unready"] = .array(unready.map { $0.obstacle.json.adding("role", .string($0.role)) })
        object["delivery"] = registration?.json ?? .null
        object["readAt"] = .time(widget.readAt)
        return .object(object)
    }
}

extension WidgetExplanation {
    fileprivate func viewsJSON(_ timeline: Timeline, _ explanation: Explanation) -> JSONValue {
        let views = timeline.facts.views
        return [
            "viewsADay": .decimal((views.viewsADay * 10).rounded() / 10), "widgets": .count(timeline.widgets),
            "lastViewedAt": .time(timeline.viewedAt), "placedAt": .time(placedAt),
            "lastActive": .time(views.lastActive),
            "learning": .bool(views.isLearning(at: readAt)), "dormant": .bool(explanation.isDormant),
            "dormantAfter": .seconds(explanation.rules.dormantAfter),
        ]
    }
}

extension WidgetExplanation.Timeline {
    fileprivate var shownJSON: JSONValue {
        guard let content else {
            if let time = facts.snapshotAt { return ["content": "snapshot", "storedAt": .time(time)] }
            return ["content": "placeholder", "fetchedAt": .time(facts.placeholderAt)]
        }
        return [
            "content": "timeline", "revision": .count(content.revision), "storedAt": .time(content.storedAt),
            "bytes": .count(content.bytes),
        ]
    }
}

extension Explanation {
    fileprivate var nextJSON: JSONValue {
        let (eligibleAt, eligibleRule) = eligible
        return [
            "text": .string(next.text), "rule": .text(next.rule?.name), "at": .time(nextAt),
            "eligibleAt": .time(eligibleAt),
            "eligibleRule": eligibleAt > facts.readAt ? .string(eligibleRule.name) : .null,
            "freeEligibleAt": .time(max(facts.timeline.freeAt, facts.readAt)),
            "policyAt": .time(facts.timeline.policyAt), "dueAt": .time(facts.lease == nil ? facts.dueAt : nil),
            "listedAt": .time(facts.listedAt),
            "retryAt": facts.timeline.retryAt > facts.readAt ? .time(facts.timeline.retryAt) : .null,
        ]
    }

    fileprivate var lastJSON: JSONValue {
        [
            "decision": .string(facts.decision.name), "rule": .text(last.rule?.name), "at": .time(facts.decidedAt),
            "text": .string(last.text),
        ]
    }

    fileprivate var budgetJSON: JSONValue {
        [
            "reloadsADay": .count(reloadsADay), "left": .count(tokensLeft), "spentAtWill": .count(spentAtWill),
            "nextTokenAt": .time(rules.developerMode ? nil : nextTokenAt), "lifted": .bool(rules.developerMode),
            "tomorrow": rules.developerMode
                ? .null : ["beginsAt": .time(tomorrow), "left": .count(tokensLeftTomorrow)],
        ]
    }
}

extension ProviderOutage {
    package var json: JSONValue {
        [
            "provider": .string(provider), "since": .time(since), "message": .string(message),
            "probeAt": .time(probeAt), "processes": .count(processes), "workers": .count(workers),
        ]
    }
}

extension DecisionRecord {
    /// The decision, as the API, the console and the commands show it.
    package var json: JSONValue {
        [
            "at": .time(at), "decision": .string(decision.name), "rule": .string(rule.name),
            "reason": .text(reason?.name), "fetchMilliseconds": .count(fetchTime?.wholeMilliseconds),
            "text": .string(decision.words + (rule == .none ? "" : ": \(rule.meaning)")),
        ]
    }
}

extension Explanation.Sentence {
    fileprivate var json: JSONValue { ["text": .string(text), "rule": .text(rule?.name)] }
}

extension ReloadFacts {
    fileprivate var requestsJSON: JSONValue {
        [
            "pending": .count(pending), "sweepsAhead": .count(sweepsAhead), "stale": .bool(isStale),
            "need": .string(need.name),
            "targeted": [
                "requested": .count(timeline.requested), "rendered": .count(timeline.rendered),
                "pending": .count(targetedPending), "free": .bool(timeline.freeRequested > timeline.rendered),
            ],
            "everyone": [
                "requested": .count(kind.current), "rendered": .count(timeline.generation),
                "pending": .count(everyonePending), "free": .bool(kind.free > timeline.generation),
                "unswept": .bool(waitsForWalk), "cancelled": .bool(isEveryoneCancelled),
            ],
        ]
    }

    fileprivate var fetchJSON: JSONValue {
        guard renderedAt != nil || fetchTime != nil || attempts > 0 else { return .null }
        let outcome: String? =
            switch decision {
            case .reloaded, .unchanged, .failed: decision.name
            default: nil
            }
        return [
            "renderedAt": .time(renderedAt), "outcome": .text(outcome),
            "milliseconds": .count(fetchTime.map { $0.wholeMicroseconds / 1_000 }),
            "failuresSince": .count(attempts),
        ]
    }
}

extension ExplainedEvent {
    fileprivate var json: JSONValue {
        var object: JSONObject = [
            "of": .string(cause.role.rawValue), "reason": .text(cause.reason?.name),
            "appliedAt": .time(cause.appliedAt), "topic": .text(topic),
            "partition": .count(cause.position?.partition), "offset": .count(cause.position?.offset),
        ]
        switch lookup {
        case .found(let found):
            object["id"] = .string(found.id)
            object["type"] = .string(found.event.type.rawValue)
            object["source"] = .string(found.source)
            object["time"] = .time(found.time)
        case .gone: object["lookup"] = "no longer in Kafka"
        case .notLookedUp(let reason): object["lookup"] = .string("not looked up: \(reason)")
        case nil: break
        }
        return .object(object)
    }
}

extension EventOutcome {
    /// The event and the reason why it had no effect, as a line of text.
    ///
    /// - Parameter words: writes a time.
    package func sentence(_ words: (Timestamp) -> String = \.rfc3339) -> String {
        let time = time.map { " of \(words($0))" } ?? ""
        return "\(type)\(time): \(detail ?? result.rawValue) (\(topic) partition \(partition) offset \(offset))"
    }

    fileprivate var json: JSONValue {
        [
            "result": .string(result.rawValue), "code": .text(code), "detail": .text(detail), "id": .string(event),
            "type": .string(type), "time": .time(time), "topic": .string(topic), "partition": .count(partition),
            "offset": .count(offset),
        ]
    }
}

extension DeadLetterSummary {
    fileprivate var refusedJSON: JSONValue {
        [
            "decision": .string(Decision.refused.name), "rule": .string(ReloadRule.invalidEvent.name),
            "topic": .string(topic), "partition": .count(partition), "offset": .count(offset),
            "code": .string(code), "error": .string(error), "receivedAt": .time(receivedAt),
        ]
    }
}

/// Cause of an explained state, with the event if Kafka still has it.
package struct ExplainedEvent: Sendable {
    package enum Lookup: Hashable, Sendable {
        case found(DecodedEvent)
        /// The log no longer has it, or has another event in its place.
        case gone
        /// No brokers are configured, or they did not answer in time.
        case notLookedUp(String)
    }

    package let cause: ExplainedCause
    /// Name of its topic; nil without a position.
    package let topic: String?
    /// Nil without a position.
    package let lookup: Lookup?
}

/// Reads the events at stored positions from Kafka.
package final class EventLookup: Sendable {
    private let reader: KafkaReader?
    private let topics: [String]
    private let sorts: [EventTopic]
    /// Look-ups that run, each with its own client and thread.
    private let running = Mutex(0)
    private static let mostRunning = 16

    /// Limit for each look-up.
    private static let timeout = Duration.seconds(3)

    /// - Parameters:
    ///   - reader: nil to look nothing up.
    ///   - topics: names of the input topics, in the order of `EventPosition.topic`.
    ///   - sorts: type of each topic.
    package init(reader: KafkaReader?, topics: [String], sorts: [EventTopic] = EventTopic.allCases) {
        self.reader = reader
        self.topics = topics
        self.sorts = sorts
    }

    /// Looks up the events of an app concurrently, each position once.
    package func events(_ causes: [ExplainedCause], of app: String) async -> [ExplainedEvent] {
        let positions = Set(causes.compactMap(\.position))
        var found: [EventPosition: ExplainedEvent.Lookup] = [:]
        await withTaskGroup(of: (EventPosition, ExplainedEvent.Lookup).self) { group in
            for position in positions { group.addTask { (position, await self.look(at: position, app)) } }
            for await (position, lookup) in group { found[position] = lookup }
        }
        return causes.map { cause in
            ExplainedEvent(
                cause: cause, topic: cause.position.map { topic($0) }, lookup: cause.position.flatMap { found[$0] })
        }
    }

    private func topic(_ position: EventPosition) -> String {
        let index = Int(position.topic)
        return topics.indices.contains(index) ? topics[index] : "topic \(index)"
    }

    private func look(at position: EventPosition, _ app: String) async -> ExplainedEvent.Lookup {
        guard let reader else { return .notLookedUp("kafka.bootstrapServers is not set") }
        let index = Int(position.topic)
        guard topics.indices.contains(index), sorts.indices.contains(index) else {
            return .notLookedUp("no such input topic")
        }
        let isFree = running.withLock { running in
            guard running < Self.mostRunning else { return false }
            running += 1
            return true
        }
        guard isFree else { return .notLookedUp("too many look-ups at a time") }
        defer { running.withLock { $0 -= 1 } }
        let batch: KafkaBatch?
        do throws(KafkaError) {
            batch = try await reader.message(
                topic: topics[index], partition: position.partition, offset: position.offset, timeout: Self.timeout)
        } catch {
            return error.code == .unknownTopicOrPartition ? .gone : .notLookedUp(error.message)
        }
        guard let batch, !batch.isEmpty else { return .gone }
        let headers = batch.headers(0)
        let decoded = try? EventDecoder().decode(
            bytes: batch.bytes, value: batch.value(0), headers: headers, topic: sorts[index])
        // The applied event was one of this app. Any other belongs to a later log and is not disclosed.
        guard var decoded, Text.equal(decoded.event.app, app) else { return .gone }
        decoded.time = decoded.time ?? Timestamp(milliseconds: batch.records[0].timestampMilliseconds)
        return .found(decoded)
    }
}
