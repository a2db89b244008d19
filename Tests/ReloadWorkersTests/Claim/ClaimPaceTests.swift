import Testing

@testable import ReloadWorkers

/// How long work gathers before it is claimed.
struct ClaimPaceTests {
    private var pace = ClaimPace(spacing: .milliseconds(25))

    @Test func aBusyAppsWorkGathers() {
        var pace = pace
        pace.turnBegins()
        pace.claimed(1, at: .milliseconds(100))
        let next = pace.next(after: .milliseconds(100), apps: [1], now: .milliseconds(110))
        #expect(next == .milliseconds(125))
        #expect(pace.next(after: .milliseconds(100), apps: [], now: .milliseconds(115)) == .milliseconds(125))
    }

    @Test func anAppThatHadNoneForAWhileWaitsForNobody() {
        var pace = pace
        pace.turnBegins()
        pace.claimed(1, at: .milliseconds(100))
        pace.claimed(2, at: .milliseconds(80))
        #expect(pace.next(after: .milliseconds(100), apps: [1], now: .milliseconds(101)) == .milliseconds(125))
        // The last claim of app 2 is more than the spacing ago.
        #expect(pace.next(after: .milliseconds(100), apps: [1, 2], now: .milliseconds(106)) == .milliseconds(105))
        // It goes on being awaited until somebody looks.
        #expect(pace.next(after: .milliseconds(100), apps: [1], now: .milliseconds(107)) == .milliseconds(105))
        pace.turnBegins()
        pace.claimed(2, at: .milliseconds(107))
        #expect(pace.next(after: .milliseconds(107), apps: [1, 2], now: .milliseconds(108)) == .milliseconds(132))
    }

    @Test func manySuchAppsShareClaims() {
        var pace = pace
        pace.turnBegins()
        #expect(pace.next(after: .milliseconds(100), apps: [3], now: .milliseconds(101)) == .milliseconds(105))
    }

    @Test func aSignalThatNamesNoAppLetsWorkGather() {
        var pace = pace
        pace.turnBegins()
        #expect(pace.next(after: .milliseconds(100), apps: [], now: .milliseconds(101)) == .milliseconds(125))
    }
}
