import WidgetModel
import WidgetStore

struct Decisions: Sendable {
    var fetches: [FetchItem] = []
    var settlements: [TimelineSettlement] = []
    var collections: [CollectItem] = []
    /// Timelines without any work under their list.
    var settled: [SettledTimeline] = []
    /// Number of timelines that only a newer version can read.
    var unreadable = 0
}

struct CollectItem: Sendable {
    let timeline: ClaimedTimeline
    let list: LeasedList
    let leaseEnds: Duration

    var settled: SettledTimeline { SettledTimeline(list: list.hold, row: timeline.row) }
}

/// Decides for claimed timelines by the rules.
///
/// Pure: no I/O, no clock.
struct Decider: Sendable {
    /// Delay of a list whose kind is not in the directory yet.
    private static let strayDelay = Duration.seconds(5)
    /// Delay of a list with a timeline that only a newer version can read, which may claim it meanwhile.
    private static let unreadableDelay = Duration.seconds(30)

    let directory: KindDirectory

    func decide(_ lists: [LeasedList], token: Int64, startedAt: Duration, leaseEnds: Duration) -> Decisions {
        var decisions = Decisions()
        for list in lists {
            var bare = list
            bare.timelines = []
            for timeline in list.timelines {
                decide(timeline, of: bare, token, startedAt, leaseEnds, &decisions)
            }
        }
        return decisions
    }

    private func decide(
        _ timeline: ClaimedTimeline, of list: LeasedList, _ token: Int64, _ startedAt: Duration, _ leaseEnds: Duration,
        _ decisions: inout Decisions
    ) {
        guard let kind = directory.kinds[timeline.kindID], let app = directory.apps[kind.app], app.id == kind.appID
        else {
            decisions.settled.append(
                SettledTimeline(list: list.hold, row: timeline.row, returnDelay: Self.strayDelay))
            return
        }
        guard !timeline.hasUnknownFamily else {
            decisions.unreadable += 1
            decisions.settled.append(
                SettledTimeline(list: list.hold, row: timeline.row, returnDelay: Self.unreadableDelay))
            return
        }
        let rules = ReloadRules(kind.definition, developerMode: kind.isDeveloperMode)
        let outcome = rules.decide(
            timeline.state, timeline.kind, facts: timeline.facts, via: list.via, isRetired: kind.isRetired,
            at: timeline.readAt)
        switch outcome {
        case .collect:
            decisions.collections.append(
                CollectItem(timeline: timeline, list: list, leaseEnds: leaseEnds))
        case .nothing:
            settle(timeline, list, .nothing, .none, .none, &decisions)
        case .wait(let until, let rule):
            settle(timeline, list, .wait(until: until), .deferred, rule, &decisions)
        case .sleep:
            settle(timeline, list, .sleep, .slept, .dormant, &decisions)
        case .fetch(let rule, let ledger):
            decisions.fetches.append(
                FetchItem(
                    timeline: timeline, list: list, kind: kind, token: token, rule: rule, ledger: ledger,
                    startedAt: startedAt, leaseEnds: leaseEnds))
        }
    }

    private func settle(
        _ timeline: ClaimedTimeline, _ list: LeasedList, _ outcome: TimelineSettlement.Outcome, _ decision: Decision,
        _ rule: ReloadRule, _ decisions: inout Decisions
    ) {
        decisions.settlements.append(
            TimelineSettlement(timeline: timeline, list: list, outcome: outcome, decision: decision, rule: rule))
    }
}
