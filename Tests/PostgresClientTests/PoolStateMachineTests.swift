import Testing

@testable import PostgresClient

/// The pool's decisions, without connections or a clock.
struct PoolStateMachineTests {
    private typealias Action = PoolStateMachine.Action

    private let start = ContinuousClock.now

    private func machine(maximum: Int = 2) -> PoolStateMachine {
        PoolStateMachine(
            maximum: maximum, acquireTimeout: .seconds(10),
            backoff: PostgresBackoff(initial: .milliseconds(100), maximum: .seconds(1)))
    }

    @Test func aConnectionIsOpenedForTheFirstCallerAndReusedForTheNext() {
        var machine = machine()
        #expect(machine.acquireRequested(1, now: start) == [.open(1), .rearmTimer])
        #expect(machine.connectionOpened(1, now: start) == [.lend(1, to: 1)])
        #expect(machine.connectionReturned(1, isReusable: true, now: start) == [])
        #expect(machine.acquireRequested(2, now: start) == [.lend(1, to: 2)])
        #expect(machine.count(.lent) == 1)
    }

    @Test func callersAreServedInTheOrderOfArrival() {
        var machine = machine(maximum: 1)
        _ = machine.acquireRequested(1, now: start)
        #expect(machine.acquireRequested(2, now: start) == [])
        #expect(machine.acquireRequested(3, now: start) == [])
        #expect(machine.connectionOpened(1, now: start) == [.lend(1, to: 1)])
        #expect(machine.connectionReturned(1, isReusable: true, now: start) == [.lend(1, to: 2)])
        #expect(machine.connectionReturned(1, isReusable: true, now: start) == [.lend(1, to: 3)])
        #expect(machine.waiting == 0)
    }

    @Test func aCancelledCallerIsPassedOver() {
        var machine = machine(maximum: 1)
        _ = machine.acquireRequested(1, now: start)
        _ = machine.acquireRequested(2, now: start)
        #expect(machine.waiterCancelled(1) == true)
        #expect(machine.waiterCancelled(1) == false)
        #expect(machine.connectionOpened(1, now: start) == [.lend(1, to: 2)])
    }

    @Test func theMaximumCountsConnectionsThatAreBeingClosed() {
        var machine = machine(maximum: 1)
        _ = machine.acquireRequested(1, now: start)
        _ = machine.connectionOpened(1, now: start)
        #expect(machine.connectionReturned(1, isReusable: false, now: start) == [.close(1)])
        #expect(machine.acquireRequested(2, now: start) == [.rearmTimer])
        #expect(machine.connectionClosed(1, isRefused: false, now: start, random: 0) == [.open(2)])
    }

    @Test func waitersExpireInTurn() {
        var machine = machine(maximum: 1)
        _ = machine.acquireRequested(1, now: start)
        _ = machine.connectionOpened(1, now: start)
        _ = machine.acquireRequested(2, now: start)
        _ = machine.acquireRequested(3, now: start + .seconds(1))
        #expect(machine.nextTimer == start + .seconds(10))
        #expect(machine.timerFired(now: start + .seconds(9)) == [])
        #expect(machine.timerFired(now: start + .seconds(10)) == [.fail(2, .poolTimeout)])
        #expect(machine.nextTimer == start + .seconds(11))
        #expect(machine.timerFired(now: start + .seconds(11)) == [.fail(3, .poolTimeout)])
        #expect(machine.nextTimer == nil)
    }

    @Test func attemptsBackOffOneAtATimeAndTheWaiterGetsTheError() {
        var machine = machine(maximum: 8)
        #expect(machine.acquireRequested(1, now: start) == [.open(1), .rearmTimer])
        #expect(machine.acquireRequested(2, now: start) == [.open(2)])
        #expect(machine.connectionClosed(1, isRefused: false, now: start, random: 0.999) == [.rearmTimer])
        #expect(machine.connectionClosed(2, isRefused: false, now: start, random: 0) == [.rearmTimer])
        #expect(machine.isFailing)
        // Twice failed: the second step, at its least.
        #expect(machine.nextTimer == start + .milliseconds(100))
        #expect(machine.acquireRequested(3, now: start) == [])
        #expect(machine.timerFired(now: start + .milliseconds(99)) == [])
        #expect(machine.timerFired(now: start + .milliseconds(100)) == [.open(3)])
        // The attempt is under way: there is nothing to be woken for but the deadlines.
        #expect(machine.nextTimer == start + .seconds(10))
        #expect(
            machine.timerFired(now: start + .seconds(10)) == [
                .fail(1, .connectFailed), .fail(2, .connectFailed), .fail(3, .connectFailed),
            ])
    }

    @Test func aSuccessfulAttemptOpensForAllWhoWait() {
        var machine = machine(maximum: 8)
        _ = machine.acquireRequested(1, now: start)
        _ = machine.connectionClosed(1, isRefused: false, now: start, random: 0)
        _ = machine.acquireRequested(2, now: start)
        _ = machine.acquireRequested(3, now: start)
        #expect(machine.timerFired(now: start + .seconds(1)) == [.open(2)])
        #expect(machine.connectionOpened(2, now: start) == [.lend(2, to: 1), .open(3), .open(4)])
        #expect(!machine.isFailing)
    }

    @Test func aRefusalFailsAllAtOnce() {
        var machine = machine()
        _ = machine.acquireRequested(1, now: start)
        _ = machine.acquireRequested(2, now: start)
        let actions = machine.connectionClosed(1, isRefused: true, now: start, random: 0)
        #expect(actions == [.fail(1, .connectFailed), .fail(2, .connectFailed), .rearmTimer])
    }

    @Test func aLostConnectionIsForgottenOrReplaced() {
        var machine = machine(maximum: 1)
        _ = machine.acquireRequested(1, now: start)
        _ = machine.connectionOpened(1, now: start)
        #expect(machine.connectionClosed(1, isRefused: false, now: start, random: 0) == [])
        #expect(machine.count(.orphaned) == 1)
        _ = machine.acquireRequested(2, now: start)
        #expect(machine.connectionReturned(1, isReusable: false, now: start) == [.open(2)])
        #expect(machine.connectionOpened(2, now: start) == [.lend(2, to: 2)])
        _ = machine.connectionReturned(2, isReusable: true, now: start)
        #expect(machine.connectionClosed(2, isRefused: false, now: start, random: 0) == [])
        #expect(machine.slots.isEmpty)
    }

    @Test func shutdownWaitsForWhatIsLent() {
        var machine = machine(maximum: 3)
        for id in 1...3 { _ = machine.acquireRequested(UInt64(id), now: start) }
        _ = machine.connectionOpened(1, now: start)
        _ = machine.connectionOpened(2, now: start)
        _ = machine.connectionReturned(2, isReusable: true, now: start)
        _ = machine.acquireRequested(4, now: start)
        #expect(machine.count(.lent) == 2)
        // Waiter 4 waits, slot 3 connects.
        let actions = machine.shutdownRequested()
        #expect(actions == [.fail(4, .shutdown), .close(3)])
        #expect(machine.acquireRequested(5, now: start) == [.fail(5, .shutdown)])
        #expect(machine.connectionOpened(3, now: start) == [.close(3)])
        #expect(machine.connectionClosed(3, isRefused: false, now: start, random: 0) == [])
        #expect(machine.connectionReturned(1, isReusable: true, now: start) == [.close(1)])
        #expect(machine.connectionClosed(1, isRefused: false, now: start, random: 0) == [])
        #expect(machine.connectionReturned(2, isReusable: true, now: start) == [.close(2)])
        #expect(machine.connectionClosed(2, isRefused: false, now: start, random: 0) == [.finishShutdown])
        #expect(machine.shutdownRequested() == [.finishShutdown])
    }

    @Test func theBackOffDoublesWithinItsBounds() {
        let backoff = PostgresBackoff(initial: .milliseconds(50), maximum: .seconds(2))
        #expect(backoff.delay(afterFailures: 1, random: 0) == .milliseconds(25))
        #expect(backoff.delay(afterFailures: 1, random: 0.5) == .microseconds(37_500))
        #expect(backoff.delay(afterFailures: 3, random: 0) == .milliseconds(100))
        #expect(backoff.delay(afterFailures: 7, random: 0) == .seconds(1))
        #expect(backoff.delay(afterFailures: 1_000_000, random: 0) == .seconds(1))
    }
}
