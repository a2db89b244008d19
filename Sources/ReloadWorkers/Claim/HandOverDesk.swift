import Synchronization
import WidgetModel
package import WidgetStore

/// Receives timelines from ingest in the same process while the workers have room.
package final class HandOverDesk: HandOverReceiving {
    private let open = Mutex<Pipeline?>(nil)

    package init() {}

    func open(_ pipeline: Pipeline) {
        open.withLock { $0 = pipeline }
    }

    func close() {
        open.withLock { $0 = nil }
    }

    package var areBusy: Bool {
        guard let context = open.withLock({ $0 })?.context else { return false }
        let most = context.claimSize.share(of: context.configuration.maximumTimelinesInFlight)
        return context.leases.held >= max(1, most / 4)
    }

    package func reserve(_ timelines: Int, of kindIDs: Set<Int32>) -> HandOverGrant? {
        guard let pipeline = open.withLock({ $0 }) else { return nil }
        let context = pipeline.context
        guard case .everything = context.output.allowance() else { return nil }
        let known = pipeline.directory.directory()
        let plan = LeasePlan(configuration: context.configuration, longestPublish: context.output.longestPublish)
        let slots = context.slots.all
        let kinds = kindIDs.compactMap { known.kinds[$0] }.filter { kind in
            let provider = ClaimTarget(kind).provider
            return !kind.isPaused && !kind.isRetired && context.protection.isWell(provider, at: context.clock.elapsed)
                && slots[provider, default: HeldSlots()].all < context.protection.limit(of: provider)
        }
        guard let lease = kinds.lazy.map({ plan.rounded(for: $0, lane: .interactive) }).max(),
            context.leases.reserve(timelines, limit: context.configuration.maximumTimelinesInFlight)
        else { return nil }
        return HandOverGrant(
            timelines: timelines, statement: (kindIDs: kinds.map(\.id).sorted(), lease: lease),
            grantedAt: context.clock.elapsed)
    }

    package func ingestIsBehind(_ isBehind: Bool) {
        guard let context = open.withLock({ $0 })?.context else { return }
        if context.precedence.ingestIsBehind(isBehind, at: context.clock.elapsed) { context.signal.signal(.timelines) }
    }

    package func accept(_ grant: HandOverGrant, _ claim: Claim?) {
        // After the close, the leases end by themselves.
        guard let pipeline = open.withLock({ $0 }) else { return }
        pipeline.context.leases.unreserve(grant.timelines)
        guard let claim else { return }
        pipeline.context.statistics.count { counts in
            counts.claims += 1
            counts.claimed += claim.count
        }
        pipeline.enter(
            claim, pipeline.directory.directory(), startedAt: grant.grantedAt,
            leaseEnds: grant.grantedAt + grant.statement.lease)
    }
}
