import Synchronization
import WidgetModel
import WidgetStore

/// Timelines that wait for a request to their provider, the most urgent first.
///
/// A full request goes out as soon as the provider has a free slot. A smaller one does so only while few requests are under
/// way: else further timelines join it until one of these ends. So requests are small while the provider keeps up, and
/// grow by themselves with the load.
final class FetchQueue: Sendable {
    private struct Queue {
        let app: RegisteredApp
        /// By lane; timelines that are tried again are kept apart, behind the others.
        var fresh: [[FetchItem]] = ReloadLane.allCases.map { _ in [] }
        var retried: [[FetchItem]] = ReloadLane.allCases.map { _ in [] }

        var isEmpty: Bool { fresh.allSatisfy(\.isEmpty) && retried.allSatisfy(\.isEmpty) }
    }

    /// Never so small that the retries after an outage are a flood of requests; bisection finds what is wrong in one.
    private static let smallestRetry = 25

    private let queues = Mutex<[ProviderKey: Queue]>([:])

    /// Appends timelines; answers their providers.
    func append(_ items: [FetchItem], _ directory: KindDirectory) -> Set<ProviderKey> {
        var providers: Set<ProviderKey> = []
        queues.withLock { queues in
            for item in items {
                guard let app = directory.apps[item.kind.app] else { continue }
                let provider = ProviderKey(appID: app.id, url: item.kind.definition.providerURL)
                let lane = Int(item.lane.rawValue)
                if item.timeline.attempts == 0 {
                    queues[provider, default: Queue(app: app)].fresh[lane].append(item)
                } else {
                    queues[provider, default: Queue(app: app)].retried[lane].append(item)
                }
                providers.insert(provider)
            }
        }
        return providers
    }

    /// Takes the timelines of the next request; nil: none waits, or `admits` refuses a slot.
    ///
    /// - Parameters:
    ///   - sizeLimit: timelines that the provider is found to take.
    ///   - admits: takes a slot for a request of a lane, if there is one; told whether the request is full.
    func next(
        _ provider: ProviderKey, sizeLimit: Int, admits: (ReloadLane, _ isFull: Bool) -> Bool
    ) -> FetchBatch? {
        queues.withLock { queues in
            guard var queue = queues[provider] else { return nil }
            defer { queues[provider] = queue.isEmpty ? nil : queue }
            if let batch = Self.take(&queue.fresh, queue.app, provider, sizeLimit, admits) { return batch }
            let attempts = queue.retried.lazy.compactMap(\.first).first?.timeline.attempts ?? 1
            let most = min(sizeLimit, queue.retried.lazy.compactMap(\.first).first?.kind.definition.maxBatch ?? 1)
            let size = max(min(most, Self.smallestRetry), most >> (2 * min(Int(attempts), 2)))
            return Self.take(&queue.retried, queue.app, provider, size, admits)
        }
    }

    private static func take(
        _ lanes: inout [[FetchItem]], _ app: RegisteredApp, _ provider: ProviderKey, _ sizeLimit: Int,
        _ admits: (ReloadLane, Bool) -> Bool
    ) -> FetchBatch? {
        guard let first = lanes.firstIndex(where: { !$0.isEmpty }), let lane = ReloadLane(rawValue: Int16(first)) else {
            return nil
        }
        let waiting = lanes.reduce(0) { $0 + $1.count }
        let limit = max(1, min(sizeLimit, lanes[first].first?.kind.definition.maxBatch ?? 1))
        guard admits(lane, waiting >= limit) else { return nil }
        var items: [FetchItem] = []
        var most = limit
        // Bulk work does not fill up the request that somebody waits for.
        let last = lane.isUrgent ? Int(ReloadLane.push.rawValue) : lanes.count - 1
        for index in first...last where items.count < most {
            var taken = 0
            for item in lanes[index] {
                most = min(most, max(1, item.kind.definition.maxBatch))
                guard items.count < most else { break }
                items.append(item)
                taken += 1
            }
            lanes[index].removeFirst(taken)
        }
        return FetchBatch(app: app, provider: provider, items: items)
    }
}
