// SPDX-License-Identifier: Apache-2.0

import Testing
import Waiting
import WidgetModel

@testable import ReloadWorkers

/// Effects of request outcomes on the limit and the breaker.
struct ProviderHealthTests {
    private static let provider = ProviderKey(appID: 1, app: "a", url: "http://p")

    private static func held(_ count: Int, _ lane: ReloadLane = .push) -> HeldSlots {
        var held = HeldSlots()
        held.add(count, lane)
        return held
    }

    private func begin(
        _ health: inout ProviderHealth, held: HeldSlots = held(1), lane: ReloadLane = .push, at time: Duration = .zero
    ) throws -> RequestTicket {
        let ticket = health.begin(Self.provider, held: held, lane: lane, at: time)
        return try #require(ticket)
    }

    private static var rules: ProtectionRules {
        var rules = ProtectionRules()
        rules.consecutiveFailures = 3
        rules.openBackoff = Backoff(base: .seconds(2), cap: .seconds(60))
        return rules
    }

    @Test(arguments: [
        (ProviderFailure(.timeout, ""), RequestVerdict.overloaded(rest: nil)),
        (ProviderFailure(.connection, ""), .overloaded(rest: nil)),
        (ProviderFailure(.status, "", status: 429), .overloaded(rest: nil)),
        (
            ProviderFailure(.status, "", retryAfter: .seconds(5), status: 503),
            .overloaded(rest: .seconds(5))
        ),
        (ProviderFailure(.status, "", status: 413), .tooLarge), (ProviderFailure(.status, "", status: 414), .tooLarge),
        (ProviderFailure(.status, "", status: 431), .tooLarge), (ProviderFailure(.tooLarge, ""), .blamesContent),
        (ProviderFailure(.status, "", status: 400), .blamesContent),
        (ProviderFailure(.status, "", status: 422), .blamesContent),
        (ProviderFailure(.status, "", status: 500), .blamesContent), (ProviderFailure(.invalid, ""), .blamesContent),
        (ProviderFailure(.status, "", status: 502), .unavailable(rest: nil)),
        (ProviderFailure(.status, "", status: 504), .unavailable(rest: nil)),
        (ProviderFailure(.status, "", status: 401), .unavailable(rest: nil)),
        (ProviderFailure(.status, "", status: 302), .unavailable(rest: nil)),
        (ProviderFailure(.status, "", status: 404), .unavailable(rest: nil)),
        (ProviderFailure(.refused, ""), .unavailable(rest: nil)),
        (ProviderFailure(.unresolved, ""), .unavailable(rest: nil)),
    ])
    func whatAFailureSays(failure: ProviderFailure, verdict: RequestVerdict) {
        #expect(RequestVerdict(failure) == verdict)
    }

    @Test func whatMayBreakAProvider() {
        let broken = [
            ProviderFailure(.timeout, ""), ProviderFailure(.connection, ""), ProviderFailure(.status, "", status: 502),
            ProviderFailure(.status, "", status: 504),
        ]
        for var failure in broken {
            #expect(failure.mayBreakProvider)
            failure.retryAfter = .seconds(1)
            #expect(!failure.mayBreakProvider, "a provider that asks for a rest works")
        }
        for reason in ProviderFailure.Reason.allCases where reason != .timeout && reason != .connection {
            #expect(!ProviderFailure(reason, "").mayBreakProvider)
        }
        for status in [401, 404, 429, 503] {
            #expect(!ProviderFailure(.status, "", status: status).mayBreakProvider)
        }
    }

    /// Reports the same verdict for three requests in sequence; returns the limit, which was eight, and whether the
    /// breaker is open.
    @Test(arguments: [
        (RequestVerdict.answered(slowly: false), 8, false), (.answered(slowly: true), 1, false),
        (.overloaded(rest: nil), 1, true), (.unavailable(rest: nil), 1, true), (.tooLarge, 8, false),
        (.blamesContent, 8, false),
    ])
    func threeInARow(verdict: RequestVerdict, limit: Int, isOpen: Bool) throws {
        var health = ProviderHealth(Self.rules, at: .zero)
        for second in 1...3 {
            let ticket = try begin(&health, at: .seconds(second))
            _ = health.end(ticket, verdict, jitter: 1, at: .seconds(second) + .milliseconds(500))
        }
        #expect(health.limit.value == limit)
        let next = health.begin(Self.provider, held: Self.held(1), lane: .push, at: .seconds(4))
        #expect((next == nil) == isOpen)
    }

    @Test func theLimitGrowsOnlyWhenTheLaneHadNoRoomLeft() throws {
        for (held, lane, grows) in [
            (Self.held(8), ReloadLane.push, true), (Self.held(7), .push, false), (Self.held(4, .bulk), .bulk, true),
            (Self.held(3, .bulk), .bulk, false),
        ] {
            var health = ProviderHealth(Self.rules, at: .zero)
            for _ in 0..<8 {
                let ticket = try begin(&health, held: held, lane: lane)
                _ = health.end(ticket, .answered(slowly: false), jitter: 0, at: .seconds(1))
            }
            #expect((health.limit.value == 9) == grows)
        }
    }

    @Test func contentThatFailsEverywhereCountsAsAFailure() throws {
        var health = ProviderHealth(Self.rules, at: .zero)
        var changes: [ProviderHealth.Change] = []
        for _ in 0..<3 {
            let ticket = try begin(&health)
            changes += health.end(ticket, .blamesContent, jitter: 1, at: .zero)
            #expect(changes.isEmpty)
            changes += health.recordFailureEverywhere(ticket, jitter: 1, at: .zero)
        }
        #expect(changes == [.opened(until: .seconds(2), wasClosed: true)])
    }

    @Test func aProviderThatComesBackBeginsWithOneRequest() throws {
        var health = ProviderHealth(Self.rules, at: .zero)
        let first = try begin(&health)
        #expect(
            health.end(first, .unavailable(rest: .seconds(30)), jitter: 0, at: .zero)
                == [.opened(until: .seconds(30), wasClosed: true)])
        #expect(health.begin(Self.provider, held: Self.held(1), lane: .push, at: .seconds(29)) == nil)
        let probe = try begin(&health, at: .seconds(30))
        #expect(probe.isProbe)
        #expect(health.begin(Self.provider, held: Self.held(2), lane: .push, at: .seconds(30)) == nil)
        #expect(
            health.end(probe, .answered(slowly: false), jitter: 0, at: .seconds(31)) == [.closed])
        #expect(health.limit.value == 2, "one request was made and answered")
        let next = try begin(&health, at: .seconds(31))
        #expect(!next.isProbe)
    }

    @Test func aProbeThatIsTooLargeOrBlamesTheContent() throws {
        for (verdict, isClosed) in [(RequestVerdict.tooLarge, true), (.blamesContent, false)] {
            var health = ProviderHealth(Self.rules, at: .zero)
            _ = health.end(try begin(&health), .overloaded(rest: .seconds(1)), jitter: 1, at: .zero)
            _ = health.end(try begin(&health, at: .seconds(2)), verdict, jitter: 1, at: .seconds(2))
            #expect((health.breaker.state == .closed) == isClosed)
        }
    }

    @Test func aRequestThatWasGivenUpSaysNothing() throws {
        var health = ProviderHealth(Self.rules, at: .zero)
        _ = health.end(try begin(&health), .overloaded(rest: .seconds(1)), jitter: 1, at: .zero)
        let probe = try begin(&health, at: .seconds(2))
        health.giveUp(probe, at: .seconds(3))
        let next = try begin(&health, at: .seconds(3))
        #expect(next.isProbe)
    }

    @Test func slowIsMeasuredByTheTimeout() {
        let health = ProviderHealth(Self.rules, at: .zero)
        #expect(!health.isSlow(.seconds(5), of: .seconds(10)))
        #expect(health.isSlow(.milliseconds(5_001), of: .seconds(10)))
    }
}
