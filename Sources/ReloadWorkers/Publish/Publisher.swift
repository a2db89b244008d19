import Logging
import WidgetEvents
import WidgetModel
import WidgetStore

struct Publisher: Sendable {
    let context: WorkerContext

    /// Publishes changed timelines and waits for the acknowledgements. The lists of unacknowledged messages go back,
    /// and their next holder publishes the stored content.
    func publish(_ stored: [StoredTimeline], traces: [EventPosition: String]) async -> [SettledTimeline] {
        var settled = stored.map { stored in
            var settled = stored.fetched.item.settled
            settled.isStored = true
            return settled
        }
        let changed = stored.indices.filter { stored[$0].isChanged }
        guard !changed.isEmpty else { return settled }
        let deadline = changed.lazy.map { stored[$0].fetched.item.leaseEnds }.min() ?? .zero
        guard deadline - context.clock.elapsed > context.output.longestPublish else {
            // An acknowledgement could come after the lease, when another process may have published.
            return returned(settled, changed)
        }
        let outcome = await context.output.publish(
            changed.map { index in
                let fetched = stored[index].fetched
                return context.messages.updated(
                    fetched.item.timeline, of: fetched.item.kind, revision: fetched.item.token,
                    content: fetched.parsed.content,
                    headers: TraceHeaders.headers(of: fetched.item.timeline, in: traces))
            })
        for place in outcome.acknowledged + outcome.refused.map(\.index) {
            let item = stored[changed[place]].fetched.item
            settled[changed[place]].published = PublishedTimeline(
                row: item.timeline.row, id: item.timeline.id, revision: item.token)
        }
        for place in outcome.acknowledged {
            context.statistics.count(kind: stored[changed[place]].fetched.item.kind.id) { $0.messagesPublished += 1 }
        }
        for (place, error) in outcome.refused {
            context.logger.error(
                "Kafka refuses a timeline for its size; it is stored and not published",
                metadata: ["timeline": "\(stored[changed[place]].fetched.item.timeline.id)", "error": "\(error)"])
        }
        context.statistics.count { counts in
            counts.published += outcome.acknowledged.count
            counts.unpublished += outcome.failed.count + outcome.refused.count
        }
        return returned(settled, outcome.failed.map { changed[$0] })
    }

    private func returned(_ settled: [SettledTimeline], _ unpublished: [Int]) -> [SettledTimeline] {
        guard !unpublished.isEmpty else { return settled }
        context.logger.warning("timelines could not be published", metadata: ["count": "\(unpublished.count)"])
        context.statistics.count { $0.released += unpublished.count }
        var settled = settled
        for index in unpublished { settled[index].returnDelay = context.configuration.publishRetryDelay }
        return settled
    }
}

extension TimelineDecidedEvent {
    private init(
        _ timeline: ClaimedTimeline, _ lane: ReloadLane, of kind: RegisteredKind?, _ decision: Decision,
        _ rule: ReloadRule
    ) {
        self.init(decision: decision, rule: rule)
        self.timeline = timeline.id
        (app, self.kind, user) = (kind?.app, kind?.definition.name, timeline.user)
        (reason, self.lane, requested) = (timeline.reason ?? .policy, lane, timeline.state.requested)
        cause = timeline.cause
    }

    /// Makes the event of a stored or unchanged timeline.
    init(_ stored: StoredTimeline) {
        let item = stored.fetched.item
        self.init(
            item.timeline, item.lane, of: item.kind, stored.isChanged ? .reloaded : .unchanged,
            stored.isChanged ? item.rule : .gate)
        claim = item.token
        rendered = stored.row.rendered
        dueAt = stored.row.nextLook
        eligibleAt = stored.row.eligibleAt
        fetchTime = stored.fetched.fetchTime
    }

    /// Makes the event of a look without a store.
    init(_ settlement: TimelineSettlement, _ row: SettledRow, of kind: RegisteredKind?) {
        self.init(
            settlement.timeline, settlement.list.lane, of: kind, settlement.decision, settlement.rule)
        dueAt = row.nextLook
        if case .wait(let until) = settlement.outcome { eligibleAt = until }
        fetchTime = settlement.fetchTime
    }
}
