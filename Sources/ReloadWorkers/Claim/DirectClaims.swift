import Synchronization
import WidgetModel
package import WidgetStore

/// Takes timelines that ingest in this process has claimed as it marked them, while the workers have room and nothing of
/// the same provider that has waited for long is left behind (``LeftBehind``).
///
/// A slot of each kind's provider is kept from the grant to its settlement, so that no two grants promise it. A claim of the
/// loop's that is on its way does not see it: then there may be a request more than there are slots for.
package final class DirectClaims: DirectClaiming {
    /// What was promised.
    private struct Promise {
        let context: WorkerContext
        let directory: KindDirectory
        let targets: [Int32: ClaimTarget]
        let startedAt: Duration
        let lease: Duration
    }

    private struct State {
        /// Of workers that run.
        var context: WorkerContext?
        /// Nothing is taken before the claim loop has looked for the first time.
        var leftBehind = LeftBehind.unknown
        var promises: [UInt64: Promise] = [:]
        var last: UInt64 = 0
    }

    private let state = Mutex(State())
    /// What is to be run. It holds no more than what is in flight.
    let works: AsyncStream<ClaimLoop.Work>
    private let continuation: AsyncStream<ClaimLoop.Work>.Continuation

    package init() {
        (works, continuation) = AsyncStream.makeStream()
    }

    /// Most timelines of a grant.
    private static let mostTimelines = 256

    func open(_ context: WorkerContext) {
        state.withLock { $0.context = context }
    }

    /// Grants nothing any more, and ends what is to be run behind what was settled so far.
    func close() {
        state.withLock { $0.context = nil }
        continuation.finish()
    }

    /// Says what the claim loop has left behind.
    func note(_ leftBehind: LeftBehind) {
        state.withLock { $0.leftBehind = leftBehind }
    }

    package func grant(_ kindIDs: Set<Int32>, of directory: KindDirectory) -> DirectGrant? {
        let (opened, leftBehind) = state.withLock { ($0.context, $0.leftBehind) }
        guard let context = opened, !kindIDs.isEmpty, !leftBehind.isOfAll,
            case .everything = context.output.allowance()
        else { return nil }
        let configuration = context.configuration
        var (capacity, _) = context.inFlight.capacity(configuration)
        let timelines = min(
            capacity.timelines, context.claimSize.share(of: configuration.claimBatch), Self.mostTimelines)
        guard timelines > 0, capacity.requests > 0 else { return nil }
        let startedAt = context.clock.elapsed
        let targets = context.protection.permitted(
            directory.claimTargets(of: kindIDs), due: kindIDs, &capacity.allowances, at: startedAt)
        let leases = LeasePlan(configuration: configuration, longestPublish: context.output.longestPublish)
        var room = capacity.requests
        var held: [ProviderKey: HeldSlots] = [:]
        var all = capacity.inFlight.values.reduce(HeldSlots(), +)
        var granted: [Int32: ClaimTarget] = [:]
        var lease: Duration?
        for (kindID, target) in targets.sorted(by: { $0.key < $1.key }) where room > 0 && target.asksProvider {
            guard let kind = directory.kinds[kindID] else { continue }
            let provider = target.provider
            guard !leftBehind.providers.contains(provider) else { continue }
            let allowance = capacity.allowances[provider]
            // A provider that is only probed, and a kind with a lease of its own, are left to the claim loop.
            guard allowance?.timelines == nil else { continue }
            let wanted = leases.rounded(for: kind, lane: .interactive)
            guard lease == nil || lease == wanted else { continue }
            let slots = held[provider] ?? capacity.inFlight[provider] ?? HeldSlots()
            let most = allowance?.requests ?? configuration.providerConcurrency
            guard capacity.room(of: most, .push, slots, all: all) > 0 else { continue }
            held[provider, default: slots].add(1, .push)
            all.add(1, .push)
            room -= 1
            lease = wanted
            granted[kindID] = target
        }
        guard let lease else { return nil }
        let promise = Promise(
            context: context, directory: directory, targets: granted, startedAt: startedAt, lease: lease)
        let number = state.withLock { state -> UInt64 in
            state.last += 1
            state.promises[state.last] = promise
            return state.last
        }
        for target in granted.values { context.inFlight.begin(target.provider, .push) }
        // One request of each kind: what is more would need slots that nobody has promised.
        let most = granted.values.lazy.map(\.maxBatch).min() ?? 1
        return DirectGrant(
            number: number,
            marks: MarkGrant(kindIDs: granted.keys.sorted(), lease: lease, limit: min(timelines, most)))
    }

    package func settle(_ grant: DirectGrant, _ claimed: [ClaimedTimeline]) {
        guard let promise = state.withLock({ $0.promises.removeValue(forKey: grant.number) }) else { return }
        let context = promise.context
        // Workers that have stopped meanwhile give them back, or leave them to their leases.
        context.inFlight.hold(claimed)
        if !claimed.isEmpty {
            context.statistics.count { counts in
                counts.claims += 1
                counts.claimed += claimed.count
            }
        }
        let plan = BatchPlan(
            claimed: claimed, directory: promise.directory, targets: promise.targets, startedAt: promise.startedAt,
            leaseEnds: promise.startedAt + promise.lease)
        context.inFlight.drop(plan.strays)
        var unused = promise.targets
        for batch in plan.reloads {
            if unused.removeValue(forKey: batch.kind.id) == nil { context.inFlight.begin(batch.provider, batch.lane) }
            run(.reload(batch), of: batch.provider, context)
        }
        if let deferral = plan.deferral {
            context.inFlight.begin(nil)
            run(.deferral(deferral), of: nil, context)
        }
        for target in unused.values { release(target.provider, context) }
    }

    private func run(_ work: ClaimLoop.Work, of provider: ProviderKey?, _ context: WorkerContext) {
        if case .terminated = continuation.yield(work) { release(provider, context) }
    }

    private func release(_ provider: ProviderKey?, _ context: WorkerContext) {
        if let provider { context.inFlight.end(provider, .push) }
        context.inFlight.finish()
    }
}
