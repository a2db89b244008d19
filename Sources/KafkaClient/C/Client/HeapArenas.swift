internal import CRdKafka

/// How many parts the process's heap has.
///
/// By default glibc makes up to eight for each processor, one after another as threads meet. Each keeps what its threads
/// have once needed; a process whose buffers wander between a dozen threads, as librdkafka's and Swift's do here, holds
/// more than it uses, and goes on growing for a long time.
package enum HeapArenas {
    /// A container's share of a large machine is not told from the machine.
    private static let most = 8

    /// How many there are to be: one for each processor, within limits; two at least, so that no two busy threads wait for
    /// one lock all the time. nil where the environment says something about them already.
    static func count(processors: Int, environment: [String: String]) -> Int? {
        let isChosen =
            environment["MALLOC_ARENA_MAX"] != nil
            || environment["GLIBC_TUNABLES"].map { $0.contains("glibc.malloc.arena_max") } ?? false
        return isChosen ? nil : min(max(2, processors), most)
    }

    /// Limits them. To be called before anything that starts threads; where the heap is not glibc's it does nothing.
    package static func limit(processors: Int, environment: [String: String]) {
        guard let count = count(processors: processors, environment: environment) else { return }
        crdkafka_limit_heap_arenas(Int32(clamping: count))
    }
}
