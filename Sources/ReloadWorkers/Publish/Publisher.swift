import Logging
import WidgetEvents
import WidgetModel
import WidgetStore

/// Publishes changed content after its store.
struct Publisher: Sendable {
    let context: WorkerContext

    /// Publishes changed timelines and waits for the acknowledgements, and sets ``TimelineJob/published``. The lists of
    /// unacknowledged messages go back, and their next holder publishes the stored content.
    func publish(_ batch: inout TimelineBatch) async {
        let changed = batch.jobs.indices.filter { batch.jobs[$0].written != nil && batch.jobs[$0].content != nil }
        guard !changed.isEmpty else { return }
        let deadline = changed.map { batch.jobs[$0].claim.leaseEnds }.min() ?? .zero
        guard deadline - context.clock.elapsed > context.output.longestPublish else {
            // An acknowledgement could come after the lease, when another process may have published.
            return giveBack(changed, of: &batch)
        }
        let outcome = await context.output.publish(
            changed.map { index in
                let job = batch.jobs[index]
                return context.messages.updated(
                    job.timeline, of: job.claim.kind, revision: job.claim.token, content: job.content ?? [],
                    headers: TraceHeaders.headers(of: job.timeline, in: batch.traces))
            })
        for place in outcome.acknowledged + outcome.refused.map(\.index) {
            batch.jobs[changed[place]].published = batch.jobs[changed[place]].claim.token
        }
        for place in outcome.acknowledged {
            context.kinds.count(kind: batch.jobs[changed[place]].claim.kind.id) { $0.messagesPublished += 1 }
        }
        for (place, error) in outcome.refused {
            context.logger.error(
                "Kafka refuses a timeline for its size; it is stored and not published",
                metadata: ["timeline": "\(batch.jobs[changed[place]].timeline.id)", "error": "\(error)"])
        }
        context.metrics.published.increment(by: outcome.acknowledged.count)
        context.metrics.unpublished.increment(by: outcome.failed.count + outcome.refused.count)
        giveBack(outcome.failed.map { changed[$0] }, of: &batch)
    }

    private func giveBack(_ unpublished: [Int], of batch: inout TimelineBatch) {
        guard !unpublished.isEmpty else { return }
        context.logger.warning("timelines could not be published", metadata: ["count": "\(unpublished.count)"])
        for index in unpublished { batch.jobs[index].returnDelay = context.configuration.publishRetryDelay }
    }
}
