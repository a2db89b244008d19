import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

struct InFlightTests {
    private let provider = ProviderKey(appID: 1, url: "http://p")

    @Test func aSlotIsFreeWhenItsRequestEndsAndTheBatchWhenItIsDone() {
        let inFlight = InFlight(signal: WorkSignal())
        var configuration = WorkerConfiguration()
        configuration.concurrency = 3
        configuration.providerConcurrency = 2
        inFlight.begin(provider)
        #expect(inFlight.capacity(configuration).capacity.requests == 2)
        #expect(inFlight.capacity(configuration).capacity.free(provider) == 1)
        inFlight.end(provider)
        // It is being stored, and asks nobody any more.
        #expect(inFlight.capacity(configuration).capacity.requests == 3)
        #expect(inFlight.capacity(configuration).capacity.free(provider) == 2)
        inFlight.finish()
        #expect(inFlight.capacity(configuration).capacity.requests == 3)
    }

    @Test func batchesThatAreNotDoneAreBoundedToo() {
        let inFlight = InFlight(signal: WorkSignal())
        var configuration = WorkerConfiguration()
        configuration.concurrency = 3
        var rooms: [Int] = []
        for _ in 0..<12 {
            inFlight.begin(provider)
            inFlight.end(provider)
            rooms.append(inFlight.capacity(configuration).capacity.requests)
        }
        #expect(rooms == Array(repeating: 3, count: 9) + [2, 1, 0])
        inFlight.finish()
        #expect(inFlight.capacity(configuration).capacity.requests == 1)
    }

    @Test func whoLetsWorkGatherIsToldWhenABatchHasEnded() {
        let signal = WorkSignal()
        let inFlight = InFlight(signal: signal)
        _ = signal.takeMarked()
        #expect(inFlight.isBelow(1))
        inFlight.begin(provider)
        let quiet = signal.mark(.timelines)
        #expect(inFlight.isBelow(2) && !inFlight.isBelow(1))
        signal.signal(marked: [LaneWork(kindID: 7, lane: .push)])
        let marked = signal.mark(.timelines)
        inFlight.end(provider)
        #expect(signal.mark(.timelines) != marked && marked != quiet)
        #expect(signal.takeMarked() == [LaneWork(kindID: 7, lane: .push)], "what gathers is known already")
        inFlight.finish()
        #expect(inFlight.isBelow(1))
    }

    @Test func roomIsToldOnlyToWhoWaitsForIt() {
        let signal = WorkSignal()
        let inFlight = InFlight(signal: signal)
        let quiet = signal.mark(.timelines)
        inFlight.begin(provider)
        inFlight.end(provider)
        #expect(signal.mark(.timelines) == quiet)
        let (_, ended) = inFlight.capacity(WorkerConfiguration())
        #expect(inFlight.holdBack(since: ended))
        inFlight.finish()
        #expect(signal.mark(.timelines) != quiet)
    }

    @Test func whatEndsWhileAClaimIsPlannedIsNotMissed() {
        let inFlight = InFlight(signal: WorkSignal())
        inFlight.begin(provider)
        let (_, ended) = inFlight.capacity(WorkerConfiguration())
        inFlight.end(provider)
        #expect(!inFlight.holdBack(since: ended))
    }

    @Test(.timeLimit(.minutes(5))) func drainingEndsWithTheLastBatchOrTheTime() async throws {
        let inFlight = InFlight(signal: WorkSignal())
        inFlight.begin(nil)
        try await inFlight.drained(within: .milliseconds(1), clock: WorkerClock())
        async let drained: Void = inFlight.drained(within: .seconds(3_600), clock: WorkerClock())
        inFlight.finish()
        try await drained
    }
}

@Suite(.timeLimit(.minutes(5)))
struct WorkSignalTests {
    @Test func aSignalAfterTheMarkIsNotLost() async throws {
        let signal = WorkSignal()
        let mark = signal.mark(.timelines)
        signal.signal()
        signal.signal()
        try await signal.wait(past: mark)
        let later = signal.mark(.timelines)
        #expect(try await !signal.wait(past: later, timeout: .milliseconds(1), clock: ContinuousClock()))
    }

    @Test func everyWaiterIsWoken() async throws {
        let signal = WorkSignal()
        let mark = signal.mark(.sweeps)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<10 { group.addTask { try await signal.wait(past: mark) } }
            signal.signal(.sweeps)
            try await group.waitForAll()
        }
    }

    @Test func sortsOfWorkAreToldApart() async throws {
        let signal = WorkSignal()
        let mark = signal.mark(.timelines)
        signal.signal(.sweeps)
        #expect(signal.mark(.timelines) == mark)
        #expect(try await !signal.wait(past: mark, timeout: .milliseconds(1), clock: ContinuousClock()))
    }

    @Test func appsAreNotedUntilTheyAreTaken() async throws {
        let signal = WorkSignal()
        let mark = signal.mark(.timelines)
        signal.mark(apps: [1, 2])
        signal.mark(apps: [2, 3])
        #expect(signal.mark(.timelines) == mark, "by themselves they wake nobody")
        #expect(signal.takeMarkedApps() == [1, 2, 3])
        #expect(signal.takeMarkedApps().isEmpty)
    }

    @Test func whatIsMarkedIsKnownUntilASignalComesThatDoesNotSay() {
        let signal = WorkSignal()
        let (push, other) = (LaneWork(kindID: 1, lane: .push), LaneWork(kindID: 2, lane: .interactive))
        // Nobody has looked yet.
        #expect(signal.takeMarked() == nil)
        signal.signal(marked: [push])
        signal.signal(marked: [push, other])
        #expect(signal.takeMarked() == [push, other])
        #expect(signal.takeMarked() == [])
        signal.signal(.sweeps)
        signal.signal(marked: [push])
        #expect(signal.takeMarked() == [push])
        signal.signal(.timelines)
        signal.signal(marked: [push])
        #expect(signal.takeMarked() == nil)
    }

    @Test func cancellationEndsTheWait() async throws {
        let signal = WorkSignal()
        let waiting = Task { try await signal.wait(past: signal.mark(.timelines)) }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
    }

    @Test func aSingleWaiterIsToldOfEachBurstOnce() async throws {
        let signal = WorkSignal()
        signal.signal()
        signal.signal()
        #expect(try await signal.wait(timeout: .seconds(60)))
        #expect(try await !signal.wait(timeout: .milliseconds(1)))
        signal.signal()
        #expect(try await signal.wait(timeout: .seconds(60)))
    }
}
