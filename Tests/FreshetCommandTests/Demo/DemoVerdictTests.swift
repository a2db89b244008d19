import PostgresClient
import Testing
import WidgetModel
import WidgetStore

@testable import freshet

struct DemoVerdictTests {
    private static let app = "com.example.bank"
    private static let time = Timestamp(microseconds: 1_790_000_000_000_000)

    /// What the demo found; as it stands, two timelines of one user that are as they should be.
    private struct Findings {
        var requested: [DemoTraffic.Scope: Timestamp] = [:]
        var oldest: Timestamp? = DemoVerdictTests.time
        var due: Int64 = 0
        var stale: Int64 = 0
        var stored: Int64 = 2
        var leased: Int64 = 0
        var sweeps: Int64 = 0
        var deadLetters: Int64 = 0
        var revisions: [String: Int64] = ["a": 3, "b": 7]
        var published = 9
        var applied = 9
        var failures = 0
        var expected = 2
        var deferredIsRight = false

        var lost: [String] {
            var output = DemoOutput.Snapshot()
            output.revisions = revisions
            return DemoVerdict.lost(
                requested: requested,
                rendered: [
                    RenderTimes.Row(app: app, kind: "RecentPurchases", user: "u1", oldest: oldest)
                ],
                overview: Overview.Row(
                    widgets: 2, timelines: 2, due: due, leased: leased, stale: stale, stored: stored,
                    requested: 5, sweeps: sweeps, deadLetters: deadLetters,
                    deadLettersToForward: 0),
                output: output, events: (published, applied), failures: failures, expectedTimelines: expected,
                deferredIsRight: deferredIsRight)
        }
    }

    /// What is lost with one thing changed.
    private func lost(_ change: (inout Findings) -> Void) -> [String] {
        var findings = Findings()
        change(&findings)
        return findings.lost
    }

    @Test("nothing is lost when everything is applied, rendered, stored and published")
    func right() {
        #expect(Findings().lost == [])
        let scope = DemoTraffic.Scope(app: Self.app, kind: "RecentPurchases", user: "u1")
        #expect(lost { $0.requested = [scope: Self.time] } == [])
        #expect(lost { $0.requested = [scope: Self.time - .seconds(1)] } == [])
    }

    @Test("events that Kafka did not acknowledge, or that are not applied, are lost")
    func events() {
        #expect(lost { $0.failures = 4 } == ["4 events were not acknowledged by Kafka"])
        #expect(lost { $0.applied = 8 } == ["9 events were published, 8 are applied"])
        #expect(lost { $0.applied = 10 } == ["9 events were published, 10 are applied"])
    }

    @Test("timelines that are not stored, or not published, are lost")
    func timelines() {
        #expect(lost { $0.expected = 3 } == ["3 distinct timelines expected, 2 are stored"])
        #expect(lost { $0.leased = 1 } == ["1 timelines are in lists that have not ended"])
        let short = ["2 timelines are stored, 1 were seen on the output topic"]
        #expect(lost { $0.revisions["b"] = nil } == short)
        // A tombstone is no timeline.
        #expect(lost { $0.revisions["b"] = -7 } == short)
    }

    @Test("sweeps that are not done and dead letters are lost")
    func leftovers() {
        #expect(lost { $0.sweeps = 1 } == ["1 sweeps are not done"])
        #expect(lost { $0.deadLetters = 2 } == ["2 events became dead letters"])
    }

    @Test("a stale timeline is lost, unless it may wait for its spacing: then a due one is")
    func stale() {
        let lostOne = ["1 timelines are still stale"]
        #expect(lost { $0.stale = 1 } == lostOne)
        func deferred(due: Int64) -> [String] {
            lost {
                $0.stale = 3
                $0.due = due
                $0.deferredIsRight = true
            }
        }
        #expect(deferred(due: 0) == [])
        #expect(deferred(due: 1) == lostOne)
    }

    @Test(
        "what was rendered before a request that covers it, or never, is lost",
        arguments: [("RecentPurchases", "u1"), (nil, "u1"), ("RecentPurchases", nil), (nil, nil)]
            as [(String?, String?)])
    func renderedBefore(kind: String?, user: String?) {
        let scope = DemoTraffic.Scope(app: Self.app, kind: kind, user: user)
        let later = Timestamp(microseconds: Self.time.microseconds + 1)
        let expected = ["\(Self.app) RecentPurchases of u1: requested at \(later.rfc3339), rendered before"]
        #expect(lost { $0.requested = [scope: later] } == expected)
        // The latest request counts, whatever its scope.
        let all: [DemoTraffic.Scope] = [nil, "RecentPurchases"].flatMap { kind in
            [nil, "u1"].map { DemoTraffic.Scope(app: Self.app, kind: kind, user: $0) }
        }
        let earlier = Dictionary(uniqueKeysWithValues: all.map { ($0, Self.time - .seconds(60)) })
        #expect(lost { $0.requested = earlier } == [])
        #expect(lost { $0.requested = earlier.merging([scope: later]) { $1 } } == expected)
        let never = lost {
            $0.requested = [scope: later]
            $0.oldest = nil
        }
        #expect(never == expected)
    }

    @Test("requests of others do not concern what is shown")
    func others() {
        let later = Self.time + .seconds(1)
        for scope in [
            DemoTraffic.Scope(app: "com.example.weather", kind: nil, user: nil),
            DemoTraffic.Scope(app: Self.app, kind: "DueDate", user: "u1"),
            DemoTraffic.Scope(app: Self.app, kind: "DueDate", user: nil),
            DemoTraffic.Scope(app: Self.app, kind: "RecentPurchases", user: "u2"),
            DemoTraffic.Scope(app: Self.app, kind: nil, user: "u2"),
        ] {
            #expect(lost { $0.requested = [scope: later] } == [], "\(scope)")
        }
    }

    @Test("all that is lost is told")
    func several() {
        let all = lost {
            $0.failures = 1
            $0.applied = 8
            $0.stale = 1
            $0.deadLetters = 1
        }
        #expect(all.count == 4)
    }
}
