import WidgetModel

/// What must hold (design, section 9), by its number there.
package enum Invariant: Int, Hashable, Sendable {
    case noLostReload = 1
    case exactlyOnce = 2
    case neverBack = 3
    case publishedIsStored = 5
    /// All quiet within a bound, once everything is healed.
    case liveness = 7
    /// A lease holds until it ends: one fetch at a time.
    case singleFlight = 8
}

/// An invariant that did not hold.
package struct Violation: Error, Hashable, Sendable, CustomStringConvertible {
    package let invariant: Invariant
    package let message: String

    package var description: String { "\(invariant): \(message)" }
}

/// Watches from outside and remembers what the system may forget: it never tells the system anything.
struct Witness {
    /// The first thing that went wrong.
    private(set) var violation: Violation?
    /// Counts applied requests and started fetches, so that it is known which was first.
    private(set) var clock = 0

    /// By timeline, when the latest request to a person or a device was applied; 0: none.
    private var asked: [Int]
    /// The same of reloads of everyone. An operator may cancel these.
    private var askedOfAll: [Int]
    /// By timeline, when the latest fetch began whose completion was accepted.
    private var served: [Int]
    /// By timeline, when the fetch began whose result is stored.
    private var stored: [Int]
    /// By timeline, the latest claim.
    private var claims: [Int64]
    /// By timeline, the end of the latest claim's lease; nil once it was ended.
    private var leases: [Timestamp?]
    /// By partition, how many events were applied.
    private(set) var applied: [Int]
    /// Values that may be published: stored, or found equal to what is, under that claim.
    private var announceable: [Int64: UInt8] = [:]
    /// Messages that landed after one with a higher revision, whose sender has not mended it.
    private var late: [Int: Set<Int64>] = [:]

    init(timelines: Int, partitions: Int) {
        asked = Array(repeating: 0, count: timelines)
        askedOfAll = asked
        served = asked
        stored = asked
        claims = Array(repeating: 0, count: timelines)
        leases = Array(repeating: nil, count: timelines)
        applied = Array(repeating: 0, count: partitions)
    }

    /// Only the first counts: what follows may follow from it.
    mutating func violated(_ invariant: Invariant, _ message: String) {
        if violation == nil { violation = Violation(invariant: invariant, message: message) }
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

    mutating func asked(_ timeline: Int) {
        clock += 1
        asked[timeline] = clock
    }

    mutating func askedOfAll(_ timeline: Int) {
        clock += 1
        askedOfAll[timeline] = clock
    }

    mutating func cancelled(_ timeline: Int) {
        askedOfAll[timeline] = 0
    }

    // MARK: Workers

    mutating func claimed(_ timeline: Int, _ claim: Int64, until end: Timestamp, at now: Timestamp) {
        if claim <= claims[timeline] {
            violated(.neverBack, "claim \(claim) of timeline \(timeline) is not a new one")
        }
        if let lease = leases[timeline] {
            if lease > now { violated(.singleFlight, "timeline \(timeline) was claimed while it was leased") }
        }
        claims[timeline] = claim
        leases[timeline] = end
    }

    /// Whoever has it leased may have lost the claim.
    mutating func ended(_ timeline: Int, claim: Int64) {
        claims[timeline] = max(claims[timeline], claim)
        leases[timeline] = nil
    }

    mutating func fetchBegins() -> Int {
        clock += 1
        return clock
    }

    mutating func stored(_ timeline: Int, claim: Int64, value: UInt8, fetchedAt: Int) {
        if claim != claims[timeline] {
            violated(
                .neverBack,
                "timeline \(timeline): what claim \(claim) fetched was stored after claim \(claims[timeline])")
        }
        if fetchedAt < stored[timeline] {
            violated(.neverBack, "timeline \(timeline): the result of an earlier fetch was stored over a later one")
        }
        stored[timeline] = fetchedAt
        announceable[claim] = value
    }

    mutating func completed(
        _ timeline: Int, claim: Int64, fetchedAt: Int, from before: TimelineStateMachine, to after: TimelineStateMachine
    ) {
        if claim != claims[timeline] {
            violated(.neverBack, "timeline \(timeline): claim \(claim) was completed after claim \(claims[timeline])")
        }
        if after.rendered < before.rendered || after.renderedKindGeneration < before.renderedKindGeneration
            || after.renderedAppGeneration < before.renderedAppGeneration
        {
            violated(.neverBack, "timeline \(timeline): a rendered generation went back")
        }
        served[timeline] = max(served[timeline], fetchedAt)
        leases[timeline] = nil
    }

    /// It is deleted, and with it all that was wanted of it.
    mutating func collected(_ timeline: Int, claim: Int64) {
        asked[timeline] = 0
        askedOfAll[timeline] = 0
        stored[timeline] = 0
        ended(timeline, claim: claim)
    }

    // MARK: Output

    /// - Parameters:
    ///   - value: nil for a tombstone.
    ///   - highest: the highest revision that had landed before.
    mutating func landed(_ timeline: Int, revision: Int64, value: UInt8?, after highest: Int64) {
        if let value {
            if announceable[revision] != value {
                violated(.publishedIsStored, "timeline \(timeline): revision \(revision) was published and not stored")
            }
        }
        if revision < highest {
            late[timeline, default: []].insert(revision)
        } else {
            late[timeline] = nil
        }
    }

    /// The sender of a message has seen that its claim was gone, and did what there is to do.
    mutating func mended(_ timeline: Int, revision: Int64) {
        late[timeline]?.remove(revision)
    }

    /// Whether the last message in the log may be an old one, whose sender died before it could mend that. Consumers
    /// that compare revisions do not care.
    func mayEndLate(_ timeline: Int) -> Bool { !(late[timeline] ?? []).isEmpty }

    // MARK: In the end

    mutating func expectServed(_ timeline: Int) {
        if served[timeline] < asked[timeline] {
            violated(
                .noLostReload,
                "timeline \(timeline): no fetch has completed that began after its last request was applied")
        }
        if served[timeline] < askedOfAll[timeline] {
            violated(
                .noLostReload,
                "timeline \(timeline): no fetch has completed that began after the last reload of everyone was applied")
        }
    }
}
