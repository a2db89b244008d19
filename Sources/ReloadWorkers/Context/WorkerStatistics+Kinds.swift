import WidgetModel
import WidgetStore

extension WorkerStatistics {
    /// Counts a request for its kinds.
    func count(asked batch: FetchBatch) {
        var asked: [Int32: Int] = [:]
        for item in batch.items { asked[item.kind.id, default: 0] += 1 }
        for (kind, count) in asked {
            self.count(kind: kind) { counters in
                counters.requests += 1
                counters.asked += count
            }
        }
    }

    /// Counts timelines that the visible-change gate wrote or spared.
    func count(stored: [StoredTimeline]) {
        for stored in stored {
            let bytes = stored.fetched.content.count
            count(kind: stored.fetched.item.kind.id) { counters in
                counters.count(stored.isChanged ? .reloaded : .unchanged)
                if stored.isChanged {
                    counters.bytesStored += bytes
                } else {
                    counters.bytesSpared += bytes
                    counters.messagesSpared += 1
                }
            }
        }
    }
}
