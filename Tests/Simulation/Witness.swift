// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// Invariants, with their numbers in Tests/README.md, “Chaos”.
package enum Invariant: Int, Hashable, Sendable {
    case noLostReload = 1
    case exactlyOnce = 2
    case neverBack = 3
    case failureKeeps = 4
    case publishedIsStored = 5
    case appointed = 7
    /// After healing all work ends within a bound, with no more lists than timelines that have work.
    case liveness = 8
}

/// A violated invariant.
package struct Violation: Error, Hashable, Sendable, CustomStringConvertible {
    package let invariant: Invariant
    package let message: String

    package var description: String { "\(invariant): \(message)" }
}

/// An independent observer with a complete history. The system never reads from it.
struct Witness {
    private struct Timeline {
        /// Times of the latest applied request to a person or a widget, and of the latest reload of everyone.
        var asked = 0
        var askedOfAll = 0
        /// Number of events applied since the timeline was created.
        var events: Int64 = 0
        /// Start of the latest fetch whose result was stored or found unchanged.
        var served = 0
    }

    /// The first violation.
    private(set) var violation: Violation?
    /// Logical clock of applied requests and started fetches, which orders them.
    private var clock = 0
    private var timelines = Table<Timeline>()
    /// Number of applied events by partition.
    private(set) var applied = Array(repeating: 0, count: SimulatedWorld.partitions)
    /// Every stored content by identity.
    private var contents: [[Message]] = Array(repeating: [], count: SimulatedWorld.identities)

    /// Readable journal of the run; nil if it is not recorded.
    private(set) var journal: [String]?

    /// Time until a timeline may sleep, by kind.
    private let dormantAfter: [Duration]

    init(_ world: SimulatedWorld, keepsJournal: Bool) {
        journal = keepsJournal ? [] : nil
        dormantAfter = world.rules.map(\.dormantAfter)
    }

    mutating func note(_ text: @autoclosure () -> String) {
        if journal != nil { journal?.append(text()) }
    }

    /// Records only the first violation, since later ones may be its consequences.
    mutating func violated(_ invariant: Invariant, _ message: String) {
        if violation == nil { violation = Violation(invariant: invariant, message: message) }
    }

    private mutating func change(_ id: Int, _ body: (inout Timeline) -> Void) {
        var timeline = timelines[id] ?? Timeline()
        body(&timeline)
        timelines[id] = timeline
    }

    // MARK: Ingest

    mutating func applied(_ offset: Int, of partition: Int) {
        if offset != applied[partition] {
            violated(
                .exactlyOnce,
                "offset \(offset) of partition \(partition) was applied when \(applied[partition]) was next")
        }
        applied[partition] = max(applied[partition], offset + 1)
    }

    mutating func asked(_ id: Int, events: Int64) {
        clock += 1
        let clock = clock
        change(id) {
            $0.asked = clock
            $0.events += events
        }
    }

    mutating func askedOfAll(_ id: Int) {
        clock += 1
        let clock = clock
        change(id) { $0.askedOfAll = clock }
    }

    mutating func cancelled(_ id: Int) {
        change(id) { $0.askedOfAll = 0 }
    }

    // MARK: Workers

    mutating func fetchBegins() -> Int {
        clock += 1
        return clock
    }

    mutating func stored(_ id: Int, fetchedAt: Int) {
        change(id) { $0.served = max($0.served, fetchedAt) }
    }

    /// Checks a row before and after a transaction.
    mutating func wrote(_ id: Int, from old: TimelineRow?, to new: TimelineRow?, at now: Timestamp) {
        guard let new else { return }
        guard let old else {
            change(id) { $0.events = 1 }
            return
        }
        if new.revision < old.revision || new.contentRevision < old.contentRevision {
            violated(.neverBack, "timeline \(id): revision \(new.revision) was stored over \(old.revision)")
        }
        if new.state.rendered < old.state.rendered || new.state.generation < old.state.generation {
            violated(.neverBack, "timeline \(id): `rendered` decreased")
        }
        if new.state.requested < old.state.requested {
            violated(.exactlyOnce, "timeline \(id): requests went back")
        }
        let lastActive = max(new.viewedAt ?? .distantPast, new.requestedAt ?? .distantPast, new.placedAt)
        if new.state.isAsleep, !old.state.isAsleep, now - lastActive < dormantAfter[new.kind] {
            violated(.noLostReload, "timeline \(id) sleeps although it was viewed at \(lastActive)")
        }
        if new.content == nil && old.content != nil
            || new.content != old.content && new.contentRevision == old.contentRevision
        {
            violated(.failureKeeps, "timeline \(id): its content was replaced, and not by a store")
        }
        if new.contentRevision != old.contentRevision {
            contents[new.identity].append(Message(revision: new.contentRevision, value: new.content))
        }
    }

    /// Invariant 7: a list will visit every row with work in time.
    mutating func checkAppointments(_ tables: Tables, at now: Timestamp) {
        for (id, row) in tables.timelines.entries {
            let kind = tables.kinds[row.kind].generations
            guard let next = row.state.nextLook(kind, at: now) else { continue }
            let lists = tables.work.entries.lazy.map(\.row).filter { $0.timelines.contains(id) }
            let isListed = lists.contains { $0.generation == nil && $0.dueAt == row.listedAt }
            if isListed, row.listedAt <= next { continue }
            // A reload of everyone is not an appointment: its rows are in its lists or ahead of its walk.
            let isSwept =
                tables.sweeps[row.kind]?.isAhead(of: id) == true
                || lists.contains { $0.generation.map { $0 > row.state.generation } ?? false }
            let targeted = row.state.nextLook(KindGenerations(), at: now)
            if targeted.map({ isListed && row.listedAt <= $0 }) ?? true, isSwept { continue }
            violated(
                .appointed,
                "timeline \(id) is to be looked at \(next - now) from now, and \(isListed ? "a" : "no") list does so at "
                    + "\(row.listedAt)")
        }
    }

    // MARK: Output

    mutating func landed(_ identity: Int, _ message: Message) {
        guard message.value != nil, !contents[identity].contains(message) else { return }
        violated(
            .publishedIsStored, "timeline \(identity): revision \(message.revision) was published and not stored")
    }

    // MARK: End of the run

    mutating func expectServed(_ id: Int, _ row: TimelineRow) {
        guard let timeline = timelines[id] else { return }
        if timeline.served < timeline.asked {
            violated(.noLostReload, "timeline \(id): no fetch was stored that began after its last request")
        }
        if timeline.served < timeline.askedOfAll {
            violated(.noLostReload, "timeline \(id): no fetch was stored that began after the last reload of everyone")
        }
        if timeline.events != row.state.requested {
            violated(.exactlyOnce, "timeline \(id): \(row.state.requested) requests, not \(timeline.events)")
        }
    }
}
