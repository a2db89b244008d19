import WidgetModel
import WidgetStore

/// What a batch comes to, counted for its kind.
extension WorkerStatistics {
    func count(asked batch: ReloadBatch) {
        count(kind: batch.kind.id) { counters in
            counters.requests += 1
            counters.asked += batch.timelines.count
        }
    }

    func count(fetched: [FetchedTimeline], of batch: ReloadBatch) {
        let linted = fetched.filter { !$0.lints.isEmpty }
        guard !linted.isEmpty else { return }
        count(kind: batch.kind.id) { counters in for timeline in linted { counters.count(timeline.lints) } }
    }

    /// What the gate wrote and spared.
    func count(saved: [SavedTimeline], of batch: ReloadBatch) {
        guard !saved.isEmpty else { return }
        count(kind: batch.kind.id) { counters in
            for timeline in saved {
                let bytes = timeline.fetched.content.count
                if timeline.isChanged { counters.bytesStored += bytes } else { counters.bytesSpared += bytes }
                if !timeline.needsPublishing { counters.messagesSpared += 1 }
            }
        }
    }

    func count(completed: [Completion], held: [CompleteTimelines.Row], of batch: ReloadBatch) {
        // All of them, but for a few that were fenced now and then.
        let lost = held.count < completed.count ? Set(completed.map(\.id)).subtracting(held.map(\.id)) : []
        count(kind: batch.kind.id) { counters in
            for completion in completed where !lost.contains(completion.id) { counters.count(completion.decision) }
        }
    }

    func count(deferred batch: DeferralBatch, held: Set<TimelineID>) {
        for (timeline, deferral) in zip(batch.timelines, batch.deferrals) where held.contains(deferral.id) {
            count(kind: timeline.kindID) { $0.count(deferral.until == nil ? .slept : .deferred) }
        }
    }

    func count(_ decision: Decision, _ timelines: Int, of batch: ReloadBatch) {
        guard timelines > 0 else { return }
        count(kind: batch.kind.id) { $0.count(decision, timelines) }
    }
}
