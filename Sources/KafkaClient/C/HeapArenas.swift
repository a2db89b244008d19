internal import CRdKafka

/// How many parts the process's heap has.
///
/// By default glibc makes up to eight for each processor, one after another as threads meet. Each keeps what its threads
/// have once needed; a process whose buffers wander between a dozen threads, as librdkafka's and Swift's do here, holds
/// several times what it uses, and goes on growing for a long time. One for each processor is as quick.
package enum HeapArenas {
    /// What glibc itself reads; who sets it has chosen.
    private static let variable = "MALLOC_ARENA_MAX"

    /// Limits them, unless the environment says how many there may be. To be called before anything that starts threads;
    /// where the heap is not glibc's it does nothing.
    ///
    /// - Parameter count: at least two are left, so that no two busy threads wait for one lock all the time.
    package static func limit(to count: Int, environment: [String: String]) {
        guard environment[variable] == nil else { return }
        crdkafka_limit_heap_arenas(Int32(clamping: max(2, count)))
    }
}
