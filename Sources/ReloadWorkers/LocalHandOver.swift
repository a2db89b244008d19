// SPDX-License-Identifier: Apache-2.0

import Synchronization
import Waiting
import WidgetModel
package import WidgetStore

/// Receives timelines from ingest in the same process while the workers have room.
package final class LocalHandOver: HandOverReceiving {
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
        return context.leases.open >= Self.quarter(of: context)
    }

    package func reserve(_ kindIDs: Set<Int32>) -> HandOver? {
        guard let pipeline = open.withLock({ $0 }) else { return nil }
        let (context, configuration) = (pipeline.context, pipeline.context.configuration)
        guard case .everything = context.output.allowance() else { return nil }
        let known = pipeline.directory.directory()
        let kinds = kindIDs.compactMap { known.kinds[$0] }.filter { !$0.isPaused && !$0.isRetired }
        let room = context.claimSize.share(of: configuration.maximumTimelinesInFlight)
        // A part of the room, so that the claim loop finds some during the transaction.
        var left = min(room - context.leases.held, Self.quarter(of: context))
        let held = context.slots.all
        let all = held.values.reduce(HeldSlots(), +)
        let capacity = ClaimCapacity(
            timelines: left, patientTimelines: 0, concurrency: configuration.concurrency,
            requestsPerProvider: configuration.providerConcurrency, inFlight: held)
        let providers = Dictionary(grouping: kinds) { ProviderKey($0) }
            .filter { context.protection.isAvailable($0.key, at: context.clock.elapsed) }
        // Timelines for the free slots of each provider. Providers share the process's free slots, as in a claim, so
        // that no timeline waits in this process for a slot while another process has one.
        var free = configuration.concurrency - all.all
        let even = max(1, free / max(1, providers.count))
        var shares: [HandOver.Share] = []
        var lease = Duration.zero
        // The order of a dictionary is random, so no provider is always the last one.
        for (provider, kinds) in providers {
            let limit = context.protection.limit(of: provider)
            let room = capacity.room(of: limit, .push, held[provider, default: HeldSlots()], all: all)
            let requests = max(0, min(free, even, room))
            let size = kinds.lazy.map { max(1, $0.definition.maxBatch) }.min() ?? 1
            let timelines = min(left, requests * min(size, context.protection.sizeLimit(of: provider)))
            guard timelines > 0 else { continue }
            shares.append(HandOver.Share(kindIDs: kinds.map(\.id).sorted(), timelines: timelines))
            let longestPublish = context.output.longestPublish
            for kind in kinds {
                lease = max(
                    lease, configuration.roundedLease(for: kind, lane: .interactive, publishing: longestPublish))
            }
            free -= requests
            left -= timelines
        }
        let grant = HandOver(shares: shares, lease: lease, grantedAt: context.clock.elapsed)
        return !shares.isEmpty && context.leases.reserve(grant.timelines, limit: room) ? grant : nil
    }

    private static func quarter(of context: WorkerContext) -> Int {
        max(1, context.claimSize.share(of: context.configuration.maximumTimelinesInFlight) / 4)
    }

    package func ingestIsBehind(_ isBehind: Bool) {
        guard let context = open.withLock({ $0 })?.context else { return }
        if context.precedence.ingestIsBehind(isBehind, at: context.clock.elapsed) { context.signals.timelines.signal() }
    }

    package func accept(_ grant: HandOver, _ claim: Claim?) {
        // After the close, the leases end by themselves.
        guard let pipeline = open.withLock({ $0 }) else { return }
        defer { pipeline.context.leases.unreserve(grant.timelines) }
        guard let claim else { return }
        pipeline.context.metrics.claims.increment()
        pipeline.context.metrics.claimed.increment(by: claim.count)
        pipeline.enter(
            claim, pipeline.directory.directory(), startedAt: grant.grantedAt,
            leaseEnds: grant.grantedAt + grant.lease)
    }
}
