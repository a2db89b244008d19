import DequeModule
import Synchronization
import WidgetModel
import WidgetStore

/// Timelines that wait for a request to their provider, the most urgent first.
///
/// A full request starts as soon as the provider has a free slot, a smaller one only while few requests are under way;
/// otherwise further timelines join it. Requests are small while the provider keeps up, and grow with the load.
final class FetchQueue: Sendable {
    private struct Queue {
        /// Timelines by lane; retries are separate, behind the others.
        var fresh: [Deque<TimelineJob>] = ReloadLane.allCases.map { _ in [] }
        var retried: [Deque<TimelineJob>] = ReloadLane.allCases.map { _ in [] }

        var isEmpty: Bool { fresh.allSatisfy(\.isEmpty) && retried.allSatisfy(\.isEmpty) }

        mutating func next(
            _ provider: ProviderKey, _ sizeLimit: Int, _ admits: (ReloadLane, Bool) -> Bool
        ) -> TimelineBatch? {
            if let jobs = FetchQueue.take(&fresh, sizeLimit, admits) { return TimelineBatch(jobs, provider) }
            guard let first = retried.lazy.compactMap(\.first).first else { return nil }
            let most = min(sizeLimit, first.claim.kind.definition.maxBatch)
            let size = max(min(most, FetchQueue.smallestRetry), most >> (2 * min(Int(first.timeline.attempts), 2)))
            return FetchQueue.take(&retried, size, admits).flatMap { TimelineBatch($0, provider) }
        }
    }

    /// Least size of batches of retries, so that an outage is not followed by a flood of small requests.
    private static let smallestRetry = 25

    private let queues = Mutex<[ProviderKey: Queue]>([:])

    /// Appends timelines and returns their providers.
    func append(_ jobs: [TimelineJob]) -> Set<ProviderKey> {
        var providers: Set<ProviderKey> = []
        queues.withLock { queues in
            for job in jobs {
                let provider = ProviderKey(job.claim.kind)
                let lane = Int(job.lane.rawValue)
                if job.timeline.attempts == 0 {
                    queues[provider, default: Queue()].fresh[lane].append(job)
                } else {
                    queues[provider, default: Queue()].retried[lane].append(job)
                }
                providers.insert(provider)
            }
        }
        return providers
    }

    /// Takes the timelines of the next request; nil without any, or if `admits` refuses a slot.
    ///
    /// - Parameters:
    ///   - sizeLimit: largest batch that the provider accepts.
    ///   - admits: takes a slot for a lane, if there is one; receives whether the request is full.
    func next(
        _ provider: ProviderKey, sizeLimit: Int, admits: (ReloadLane, _ isFull: Bool) -> Bool
    ) -> TimelineBatch? {
        queues.withLock { queues in
            // In place: a copy of the queue would copy all waiting timelines for every request.
            guard let batch = queues[provider]?.next(provider, sizeLimit, admits) else { return nil }
            if queues[provider]?.isEmpty == true { queues[provider] = nil }
            return batch
        }
    }

    private static func take(
        _ lanes: inout [Deque<TimelineJob>], _ sizeLimit: Int, _ admits: (ReloadLane, Bool) -> Bool
    ) -> [TimelineJob]? {
        guard let first = lanes.firstIndex(where: { !$0.isEmpty }), let lane = ReloadLane(rawValue: Int16(first)) else {
            return nil
        }
        let waiting = lanes.reduce(0) { $0 + $1.count }
        let limit = max(1, min(sizeLimit, lanes[first].first?.claim.kind.definition.maxBatch ?? 1))
        guard admits(lane, waiting >= limit) else { return nil }
        var jobs: [TimelineJob] = []
        var most = limit
        // Bulk work does not fill up urgent requests.
        let last = lane.isUrgent ? Int(ReloadLane.push.rawValue) : lanes.count - 1
        for index in first...last where jobs.count < most {
            while let job = lanes[index].first {
                most = min(most, max(1, job.claim.kind.definition.maxBatch))
                guard jobs.count < most else { break }
                jobs.append(lanes[index].removeFirst())
            }
        }
        return jobs
    }
}
