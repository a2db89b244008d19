// SPDX-License-Identifier: Apache-2.0

internal import WidgetModel

/// A timeline of a simulation.
struct SimulatedTimeline {
    let target: SimulatedTarget
    var record: ReloadRecord
    var hash: ContentHash?
    /// Time of the first request that no reload has served.
    var pendingSince: Timestamp?
    /// Time at which the shown content is over by its policy.
    var policyDue = Timestamp.distantFuture
    var publishedAt: Timestamp?
    /// Number of widgets that show it.
    var widgets: Int32 = 0
    let begunAt: Timestamp
    /// End of a timeline that no widget shows any more.
    var collectedAt: Timestamp?
    /// Day of the latest budgeted reload, and their number on that day.
    var day: Int32 = -1
    var budgeted: Int32 = 0
    /// Nil for a timeline whose content never had any.
    var relevance: RelevanceRecord?
    /// Whether a plan has read the relevance: from then on its history is kept, before that only the present content
    /// counts.
    var isRelevanceRead = false

    var kind: Int { target.kind }
    var isCollected: Bool { collectedAt != nil }

    /// Time since when the shown content is stale; nil: it is fresh.
    func staleSince(_ now: Timestamp) -> Timestamp? {
        let since = min(pendingSince ?? .distantFuture, policyDue)
        return since < now ? since : nil
    }
}

/// A widget of a simulation.
struct SimulatedWidget {
    var record: WidgetRecord
    /// Index of its timeline; negative: it shows none.
    var timeline: Int32 = -1
    var user: Int32 = -1
    var device: Int32 = -1
}

/// A decided fetch. Not part of the generic ``Simulation``, so that its arrays are specialized.
struct DecidedFetch {
    let timeline: Int32
    let provider: Int32
    let rule: ReloadRule
    let ledger: BudgetLedger
    let views: ViewStatistics
    let reason: ReloadReason
    let isMine: Bool
    /// Budget in effect; 0 for a fetch that takes no token.
    let budget: Int32
}
