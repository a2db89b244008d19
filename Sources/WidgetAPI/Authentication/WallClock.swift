package import WidgetModel

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Time of day, for times that are compared with other machines': those of tokens and published events.
package enum WallClock {
    /// This machine's time of day.
    package static func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(microseconds: Int64(time.tv_sec) * 1_000_000 + Int64(time.tv_nsec) / 1_000)
    }
}
