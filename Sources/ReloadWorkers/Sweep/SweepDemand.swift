import Synchronization
import WidgetStore

/// Tells the sweeper that there is room for more work, but only while it waits for that.
final class SweepDemand: Sendable {
    private let isHeldBack = Atomic(false)
    private let signal: WorkSignal

    init(signal: WorkSignal) {
        self.signal = signal
    }

    /// Said before the backlog is read, so that no shrinking after it is missed.
    func passBegan() {
        isHeldBack.store(true, ordering: .sequentiallyConsistent)
    }

    var isAwaited: Bool { isHeldBack.load(ordering: .sequentiallyConsistent) }

    func passEnded(isHeldBack: Bool) {
        if !isHeldBack { self.isHeldBack.store(false, ordering: .sequentiallyConsistent) }
    }

    /// Timelines of the bulk lane were claimed, or done.
    func backlogShrank() {
        if isAwaited { signal.signal(.sweeps) }
    }
}
