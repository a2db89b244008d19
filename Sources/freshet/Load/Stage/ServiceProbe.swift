import Foundation
import PostgresClient
import Synchronization
import WidgetStore

/// What is sampled of the service and the database for the charts.
final class ServiceProbe: Sendable {
    private let farm: Farm
    private let services: [ChildProcess]
    private let includesTables: Bool
    private let lastWAL = Mutex<(time: ContinuousClock.Instant, bytes: Int64)?>(nil)

    init(farm: Farm, services: [ChildProcess], includesTables: Bool) {
        self.farm = farm
        self.services = services
        self.includesTables = includesTables
    }

    /// The memory that the service has resident; that of this process, where the service is part of it.
    var residentBytes: Int? {
        let processes = services.isEmpty ? [ProcessInfo.processInfo.processIdentifier] : services.map(\.pid)
        let sizes = processes.compactMap(ProcessUsage.residentBytes(of:))
        return sizes.count == processes.count ? sizes.reduce(0, +) : nil
    }

    /// What cannot be had now is left out: a sample is not worth ending a scenario for.
    @Sendable func sample() async -> [LoadSample.Key: Double?] {
        var values: [LoadSample.Key: Double?] = [.residentBytes: residentBytes.map { Double($0) }]
        guard includesTables else { return values }
        if let vitals = try? await farm.vitals() {
            let now = ContinuousClock.now
            values[.walBytesPerSecond] = lastWAL.withLock { last -> Double? in
                defer { last = (now, vitals.walBytes) }
                return last.map {
                    Double(vitals.walBytes - $0.bytes) / max(0.001, $0.time.duration(to: now) / .seconds(1))
                }
            }
        }
        if let sizes = try? await farm.pool.query(TableSizes()), let state = sizes.first(where: { $0.isTimeline }) {
            values[.stateTableBytes] = Double(state.tableBytes)
            values[.stateIndexBytes] = Double(state.indexBytes)
            values[.deadTuples] = Double(state.dead)
            values[.liveTuples] = Double(state.live)
        }
        return values
    }
}

extension ProcessUsage {
    /// The memory that a process has resident now, in bytes; nil when it is not known.
    static func residentBytes(of process: Int32) -> Int? {
        read("/proc/\(process)/status").flatMap(residentBytes(status:))
    }

    /// Reads `VmRSS` of `/proc/PID/status`.
    static func residentBytes(status: String) -> Int? {
        for line in status.split(separator: "\n") where line.hasPrefix("VmRSS:") {
            let fields = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
            guard fields.count == 3, fields[2] == "kB", let kilobytes = Int(fields[1]) else { return nil }
            return kilobytes * 1_024
        }
        return nil
    }
}
