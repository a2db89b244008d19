// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

/// Requirements, with their numbers in Tests/README.md, “Chaos”.
enum Invariant: Int, CaseIterable, Sendable, Comparable {
    case noLostReload = 1
    case exactlyOnce = 2
    case neverBack = 3
    case wholeTimelines = 4
    case publishedIsStored = 5
    case separateApps = 6
    case appointed = 7
    /// All work ends once all faults are healed.
    case liveness = 8
    /// No process exits unexpectedly.
    case noCrash = 9
    /// Each device gets a push after the last change of what it shows.
    case delivered = 10
    /// A device gets at most one push per window.
    case noStorm = 11
    /// No timeline of a healthy provider fails.
    case healthyProviders = 12

    var title: String {
        switch self {
        case .noLostReload: "1 no lost reload"
        case .exactlyOnce: "2 exactly-once effect"
        case .neverBack: "3 stored never goes back"
        case .wholeTimelines: "4 stored timelines are whole"
        case .publishedIsStored: "5 published is stored"
        case .separateApps: "6 apps are separate, requests signed"
        case .appointed: "7 every timeline is appointed"
        case .liveness: "8 liveness after healing"
        case .noCrash: "9 no process crashes"
        case .delivered: "10 changes reach their devices"
        case .noStorm: "11 one push a window and device"
        case .healthyProviders: "12 healthy providers do not fail"
        }
    }

    static func < (left: Invariant, right: Invariant) -> Bool { left.rawValue < right.rawValue }
}

/// Destination of progress reports: the file that FRESHET_CHAOS_OUTPUT names, since `swift test` holds back the output
/// of tests until the end; otherwise standard output.
enum ChaosOutput {
    private static let file: FileHandle = {
        guard let path = ProcessInfo.processInfo.environment["FRESHET_CHAOS_OUTPUT"],
            let file = FileHandle(forWritingAtPath: path)
        else { return .standardOutput }
        _ = try? file.seekToEnd()
        return file
    }()

    static func write(_ text: String) { try? file.write(contentsOf: Data(text.utf8)) }
}

/// Collects checks and violations, and prints progress.
final class ChaosReport: Sendable {
    struct Finding: Sendable {
        var checked = 0
        var violations = 0
        /// The first few violations, in detail.
        var details: [String] = []
        /// Time of the first violation since the beginning.
        var first: Duration?
    }

    private struct State {
        var findings: [Invariant: Finding] = [:]
        var faults: [String: Int] = [:]
        /// Times of publications that may be of lost history, in milliseconds since 1970.
        var losses: [ClosedRange<Int64>] = []
    }

    private static let keptDetails = 8

    private let state = Mutex(State())
    private let start = ContinuousClock.now
    private let label: String
    private let file: FileHandle?

    init(label: String, directory: URL? = nil) {
        self.label = label
        if let directory {
            let path = directory.appendingPathComponent("chaos.log").path
            _ = FileManager.default.createFile(atPath: path, contents: nil)
            file = FileHandle(forWritingAtPath: path)
        } else {
            file = nil
        }
    }

    deinit { try? file?.close() }

    /// Time since the run began.
    var elapsed: Duration { ContinuousClock.now - start }

    func say(_ line: String) {
        let text = "[\(label) \(Self.seconds(elapsed))] \(line)\n"
        ChaosOutput.write(text)
        try? file?.write(contentsOf: Data(text.utf8))
    }

    func fault(_ sort: String, _ line: String) {
        state.withLock { $0.faults[sort, default: 0] += 1 }
        say(line)
    }

    /// Notes that commits are lost from now on.
    func beginLoss() {
        // A standby may have been a little behind.
        state.withLock { $0.losses.append((Self.now - 2_000)...Int64.max) }
    }

    /// Notes that commits are lost no more. Workers may still publish what they fetched before for as long as a lease.
    func endLoss() {
        state.withLock { state in
            if let last = state.losses.popLast() { state.losses.append(last.lowerBound...(Self.now + 15_000)) }
        }
    }

    private static var now: Int64 { Int64(Date().timeIntervalSince1970 * 1_000) }

    /// Whether what was published at a time may be of lost history.
    func isOfLostHistory(_ milliseconds: Int64) -> Bool {
        state.withLock { $0.losses.contains { $0.contains(milliseconds) } }
    }

    func checked(_ invariant: Invariant, _ count: Int = 1) {
        state.withLock { $0.findings[invariant, default: Finding()].checked += count }
    }

    func violated(_ invariant: Invariant, _ detail: @autoclosure () -> String) {
        let detail = detail()
        let now = elapsed
        let isKept = state.withLock { state in
            state.findings[invariant, default: Finding()].violations += 1
            state.findings[invariant, default: Finding()].first = state.findings[invariant]?.first ?? now
            guard state.findings[invariant, default: Finding()].details.count < Self.keptDetails else { return false }
            state.findings[invariant, default: Finding()].details.append(detail)
            return true
        }
        if isKept { say("VIOLATION of \(invariant.title): \(detail)") }
    }

    /// The first violations of each invariant.
    var details: [String] {
        let findings = state.withLock { $0.findings }
        return Invariant.allCases.flatMap { invariant in
            findings[invariant]?.details.map { "\(invariant.title): \($0)" } ?? []
        }
    }

    var violations: Int { state.withLock { $0.findings.values.reduce(0) { $0 + $1.violations } } }
    var faultCount: Int { state.withLock { $0.faults.values.reduce(0, +) } }

    func faults(of sort: String) -> Int { state.withLock { $0.faults[sort] ?? 0 } }

    func violations(of invariant: Invariant) -> Int {
        state.withLock { $0.findings[invariant]?.violations ?? 0 }
    }

    /// Time of an invariant's first violation since the beginning of the run.
    func firstViolation(of invariant: Invariant) -> Duration? {
        state.withLock { $0.findings[invariant]?.first }
    }

    /// Table at the end of the run.
    func summary(seed: UInt64, extra: [String] = []) -> String {
        let state = state.withLock { $0 }
        var lines = ["", "seed \(seed), \(Self.seconds(elapsed)) s, \(state.faults.values.reduce(0, +)) faults"]
        for (sort, count) in state.faults.sorted(by: { ($1.value, $0.key) < ($0.value, $1.key) }) {
            lines.append("  \(Self.padded(sort, 34))\(count)")
        }
        lines += extra
        lines.append("  \(Self.padded("invariant", 40))\(Self.padded("checked", 12))violations")
        for invariant in Invariant.allCases {
            let finding = state.findings[invariant] ?? Finding()
            lines.append(
                "  \(Self.padded(invariant.title, 40))\(Self.padded("\(finding.checked)", 12))\(finding.violations)")
        }
        lines += details.map { "  ! \($0)" }
        return lines.joined(separator: "\n")
    }

    private static func padded(_ text: String, _ width: Int) -> String {
        text + String(repeating: " ", count: max(1, width - text.count))
    }

    static func seconds(_ duration: Duration) -> String {
        let milliseconds = duration.components.seconds * 1_000 + duration.components.attoseconds / 1_000_000_000_000_000
        let tenths = milliseconds / 100
        return "\(tenths / 10).\(tenths % 10)"
    }
}
