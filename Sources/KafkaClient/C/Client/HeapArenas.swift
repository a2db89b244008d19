internal import CRdKafka

/// Limit of the number of heap arenas of glibc's allocator.
///
/// By default glibc creates up to eight arenas per processor as threads contend, and each arena keeps the memory that
/// its threads once needed. Buffers of librdkafka and Swift move between a dozen threads, so the process would hold
/// more memory than it uses and grow for a long time.
package enum HeapArenas {
    /// Upper limit of the number, since a container sees all processors of a large machine.
    private static let most = 8

    /// Returns the number of arenas: one per processor, but at least two, so that busy threads do not share one lock.
    /// Nil if the environment sets it.
    static func count(processors: Int, environment: [String: String]) -> Int? {
        let isChosen =
            environment["MALLOC_ARENA_MAX"] != nil
            || environment["GLIBC_TUNABLES"].map { $0.contains("glibc.malloc.arena_max") } ?? false
        return isChosen ? nil : min(max(2, processors), most)
    }

    /// Sets the limit. Call it before any thread starts. It has no effect with another allocator.
    package static func limit(processors: Int, environment: [String: String]) {
        guard let count = count(processors: processors, environment: environment) else { return }
        crdkafka_limit_heap_arenas(Int32(clamping: count))
    }
}
