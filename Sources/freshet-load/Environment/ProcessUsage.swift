import Foundation
import Synchronization

/// Resources used by a process so far, read from `/proc`; zero on systems without it.
struct ProcessUsage: Sendable, Equatable {
    /// CPU time of all its threads, in user mode and in the kernel.
    var cpuSeconds = 0.0
    /// CPU time of its children that have ended and were waited for, and of their children.
    var endedChildrenCPUSeconds = 0.0
    var parent: Int32 = 0
    /// As the kernel knows it: the first 15 bytes of the file's name.
    var name = ""

    /// This process.
    static let own = getpid()

    private static let ticks = Double(max(1, sysconf(Int32(_SC_CLK_TCK))))

    /// nil when there is no such process (any more), or no `/proc`.
    init?(of process: Int32) {
        guard let text = Self.read("/proc/\(process)/stat") else { return nil }
        self.init(stat: text, ticksPerSecond: Self.ticks)
    }

    /// Reads the line of `/proc/PID/stat`. The name is in parentheses and may itself hold some, and spaces.
    init?(stat: String, ticksPerSecond: Double) {
        guard let open = stat.firstIndex(of: "("), let close = stat.lastIndex(of: ")"), open < close else { return nil }
        name = String(stat[stat.index(after: open)..<close])
        // Behind the name: state, parent, … and from the 14th field of all on the times.
        let fields = stat[stat.index(after: close)...].split(separator: " ")
        guard fields.count > 14, let parent = Int32(fields[1]) else { return nil }
        self.parent = parent
        let times = fields[11...14].compactMap { Double($0) }
        guard times.count == 4 else { return nil }
        cpuSeconds = (times[0] + times[1]) / ticksPerSecond
        endedChildrenCPUSeconds = (times[2] + times[3]) / ticksPerSecond
    }

    /// Memory of a process, as `/proc/PID/status` calls it.
    enum Memory: String {
        /// Resident now.
        case resident = "VmRSS:"
        /// The most that has ever been resident.
        case peak = "VmHWM:"
    }

    /// Bytes of a process's memory; nil when they are not known.
    static func bytes(of memory: Memory, process: Int32) -> Int? {
        read("/proc/\(process)/status").flatMap { bytes(of: memory, status: $0) }
    }

    static func bytes(of memory: Memory, status: String) -> Int? {
        for line in status.split(separator: "\n") where line.hasPrefix(memory.rawValue) {
            let fields = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
            guard fields.count == 3, fields[2] == "kB", let kilobytes = Int(fields[1]) else { return nil }
            return kilobytes * 1_024
        }
        return nil
    }

    /// The processes that one has started; empty when that is not known.
    static func children(of process: Int32) -> [Int32] {
        if let text = read("/proc/\(process)/task/\(process)/children") {
            return text.split(separator: " ").compactMap { Int32($0) }
        }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        return names.compactMap { Int32($0) }.filter { ProcessUsage(of: $0)?.parent == process }
    }

    /// Files of `/proc` say that they are empty, so they are read until their end.
    static func read(_ path: String) -> String? {
        guard let file = fopen(path, "r") else { return nil }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while bytes.count < 1 << 20 {
            let count = fread(&chunk, 1, chunk.count, file)
            guard count > 0 else { break }
            bytes += chunk[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// A PostgreSQL server on this machine: its first process and what that has started.
struct PostgresProcesses: Sendable {
    let postmaster: Int32
    /// Server processes whose work is not to be counted: those that serve the load generator.
    let excluded: Set<Int32>

    /// - Parameter backends: server processes of the caller's own connections; nil where they are not processes of this
    ///   machine.
    init?(backends: Set<Int32>) {
        guard let first = backends.first, let usage = ProcessUsage(of: first), usage.name.hasPrefix("postgres"),
            let parent = ProcessUsage(of: usage.parent), parent.name.hasPrefix("postgres")
        else { return nil }
        postmaster = usage.parent
        excluded = backends
    }

    /// Seconds on processors of the whole server, but for what is excluded.
    var cpuSeconds: Double? {
        guard let root = ProcessUsage(of: postmaster) else { return nil }
        let live = ProcessUsage.children(of: postmaster).filter { !excluded.contains($0) }
            .reduce(0.0) { $0 + (ProcessUsage(of: $1)?.cpuSeconds ?? 0) }
        return root.cpuSeconds + root.endedChildrenCPUSeconds + live
    }
}

/// CPU time of an environment's parts. It is sampled all the time, so that the use between any two moments is known
/// afterwards.
final class UsageSampler: Sendable {
    /// CPU seconds of each part since its start; nil if unknown.
    struct Sample: Sendable {
        var time: ContinuousClock.Instant
        var service: Double?
        var database: Double?
        var broker: Double?
        var provider: Double?
        var tool: Double?
    }

    /// Interval of the samples, and precision of the figures. Each sample reads some small files of `/proc`.
    static let interval = Duration.milliseconds(50)
    /// Most samples, those of an hour; beyond it every other one is dropped.
    private static let limit = 72_000

    private let samples = Mutex<[Sample]>([])
    private let measure: @Sendable () -> Sample

    /// - Parameter measure: reads the counters now.
    init(_ measure: @escaping @Sendable () -> Sample) {
        self.measure = measure
    }

    /// Takes a sample now.
    func sample() {
        let sample = measure()
        samples.withLock { samples in
            if samples.count >= Self.limit {
                samples = samples.enumerated().filter { $0.offset % 2 == 0 }.map(\.element)
            }
            samples.append(sample)
        }
    }

    /// Takes samples until it is cancelled.
    func run() async {
        while !Task.isCancelled {
            sample()
            try? await Task.sleep(for: Self.interval, tolerance: .milliseconds(5))
        }
    }

    /// Resources used between two moments: from the last sample before the first to the first one after the second.
    func usage(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> Sample? {
        samples.withLock { samples in
            guard let first = samples.last(where: { $0.time <= start }) ?? samples.first,
                let last = samples.first(where: { $0.time >= end }) ?? samples.last
            else { return nil }
            func difference(_ part: KeyPath<Sample, Double?>) -> Double? {
                guard let before = first[keyPath: part], let after = last[keyPath: part] else { return nil }
                return max(0, after - before)
            }
            return Sample(
                time: last.time, service: difference(\.service), database: difference(\.database),
                broker: difference(\.broker), provider: difference(\.provider), tool: difference(\.tool))
        }
    }
}
