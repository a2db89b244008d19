package import WidgetModel

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// For what has to agree with clocks outside: the times of tokens, and of events that the API publishes.
package enum WallClock {
    /// The time of day of this machine.
    package static func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
    }
}
