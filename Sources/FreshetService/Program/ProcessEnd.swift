import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The end of the process, without what libraries do at exit: threads of C libraries may still be at work, one that is
/// connecting to a PostgreSQL that is away, say, and would find its locks destroyed (libpq's Kerberos aborts then).
package enum ProcessEnd {
    package static func now(_ status: Int32) -> Never {
        fflush(nil)
        _exit(status)
    }
}
