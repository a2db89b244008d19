// SPDX-License-Identifier: Apache-2.0

import Foundation

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

    /// Resident memory of a process now; nil when it is not known.
    static func residentBytes(of process: Int32) -> Int? { bytes("VmRSS:", of: process) }
    /// The most that has ever been resident.
    static func peakResidentBytes(of process: Int32) -> Int? { bytes("VmHWM:", of: process) }

    private static func bytes(_ field: String, of process: Int32) -> Int? {
        read("/proc/\(process)/status").flatMap { bytes(field, status: $0) }
    }

    /// A field of `/proc/PID/status`, in bytes.
    static func bytes(_ field: String, status: String) -> Int? {
        for line in status.split(separator: "\n") where line.hasPrefix(field) {
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

    // MARK: PostgreSQL

    /// First process of a PostgreSQL server on this machine.
    ///
    /// - Parameter backends: server processes of the caller's own connections; nil where they are not processes of this
    ///   machine.
    static func postmaster(of backends: Set<Int32>) -> Int32? {
        guard let first = backends.first, let usage = ProcessUsage(of: first), usage.name.hasPrefix("postgres"),
            let parent = ProcessUsage(of: usage.parent), parent.name.hasPrefix("postgres")
        else { return nil }
        return usage.parent
    }

    /// Seconds on processors of a whole PostgreSQL server.
    ///
    /// - Parameter excluded: server processes whose work is not to be counted.
    static func cpuSeconds(ofServer postmaster: Int32, excluding excluded: Set<Int32>) -> Double? {
        guard let root = ProcessUsage(of: postmaster) else { return nil }
        let live = children(of: postmaster).filter { !excluded.contains($0) }
            .reduce(0.0) { $0 + (ProcessUsage(of: $1)?.cpuSeconds ?? 0) }
        return root.cpuSeconds + root.endedChildrenCPUSeconds + live
    }
}

/// CPU seconds of each part of an environment since its start; nil if unknown.
struct UsageSample: Sendable {
    var time: ContinuousClock.Instant
    var service: Double?
    var database: Double?
    var broker: Double?
    var provider: Double?
    var tool: Double?
}

extension [UsageSample] {
    /// Resources used between two moments: from the last sample before the first to the first one after the second.
    func usage(from start: ContinuousClock.Instant, to end: ContinuousClock.Instant) -> UsageSample? {
        guard let first = last(where: { $0.time <= start }) ?? first,
            let last = self.first(where: { $0.time >= end }) ?? last
        else { return nil }
        func difference(_ part: KeyPath<UsageSample, Double?>) -> Double? {
            guard let before = first[keyPath: part], let after = last[keyPath: part] else { return nil }
            return Swift.max(0, after - before)
        }
        return UsageSample(
            time: last.time, service: difference(\.service), database: difference(\.database),
            broker: difference(\.broker), provider: difference(\.provider), tool: difference(\.tool))
    }
}
