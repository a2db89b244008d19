// SPDX-License-Identifier: Apache-2.0

import Foundation
import Fuzzing

#if canImport(Glibc)
import CDispatch
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// A run: a number of inputs for each target, in sequence.
struct FuzzRun: Sendable {
    /// Generous time limit of an input in seconds of this thread's processor time, which excludes other work on the
    /// machine.
    private static let longest = 1.0
    /// Number of findings per target that are printed in detail.
    private static let toldFindings = 10

    private let recorder: InputRecorder
    private let fuzzer: Fuzzer
    private let options: Fuzz.Options

    init(corpus: Corpus, recorder: InputRecorder, options: Fuzz.Options) {
        self.recorder = recorder
        self.options = options
        fuzzer = Fuzzer(corpus: corpus, seed: options.seed, recorder: recorder)
    }

    /// - Returns: Whether there were no findings.
    func run() -> Bool {
        let began = ContinuousClock.now
        var findings = 0
        for (index, target) in options.targets.enumerated() {
            let share = options.inputs / options.targets.count
            let rest = index < options.inputs % options.targets.count ? 1 : 0
            findings += run(target, options.from..<(options.from + share + rest))
        }
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        say(
            """
            fuzz: \(options.inputs) inputs, seed \(options.seed), \(Int(seconds.rounded(.up))) s, \
            \(FuzzWatch.peakMemory() / 1024) MiB at most (\(FuzzWatch.memoryLimit / 1024) allowed), \
            \(findings) findings, 0 crashes, 0 hangs
            """)
        return findings == 0
    }

    private func run(_ target: FuzzTarget, _ numbers: Range<Int>) -> Int {
        recorder.begin(target, seed: options.seed)
        var verdicts: [String: Int] = [:]
        var (bytes, most, findings) = (0, 0, 0)
        var slowest: (seconds: Double, number: Int) = (0, numbers.lowerBound)
        for number in numbers {
            let began = Self.processorSeconds()
            do throws(FuzzFinding) {
                let outcome = try fuzzer.run(target, number)
                verdicts[outcome.verdict, default: 0] += 1
                bytes += outcome.bytes
                most = max(most, outcome.bytes)
                if number - numbers.lowerBound == min(100, numbers.count - 1) { try options.provoked?.happen() }
            } catch {
                findings += 1
                tell(error.description, findings)
            }
            let seconds = Self.processorSeconds() - began
            if seconds > slowest.seconds { slowest = (seconds, number) }
            if seconds > Self.longest {
                findings += 1
                tell("it took \(seconds) s of the processor", findings)
            }
        }
        let counts = verdicts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            .map { "\($0.key) \($0.value)" }.joined(separator: ", ")
        say(
            """
            fuzz: \(target.rawValue): \(numbers.count) inputs of \(bytes / max(1, numbers.count)) bytes on average, \
            \(most) at most; slowest \(Int(slowest.seconds * 1_000)) ms (input \(slowest.number)); \(findings) findings
            fuzz:   \(counts)
            """)
        return findings
    }

    private func tell(_ what: String, _ findings: Int) {
        guard findings <= Self.toldFindings else { return }
        say("fuzz: \(what)")
        recorder.report("FINDING")
    }

    /// Flushes at once, so that a crash does not lose output.
    private func say(_ text: String) {
        print(text)
        fflush(nil)
    }

    private static func processorSeconds() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}

/// A defect that is caused on purpose.
enum Provocation: String, CaseIterable, Sendable {
    case finding, crash, overflow, hang, memory

    func happen() throws(FuzzFinding) {
        switch self {
        case .finding: throw FuzzFinding("provoked")
        case .crash: preconditionFailure("provoked")
        case .overflow: print(Self.depth(Int(getpid())))
        case .hang: while true { sleep(1) }
        case .memory:
            var held: [[UInt8]] = []
            // The limit is noticed some time after it was exceeded; the machine's memory must not be.
            while held.count < 4 * FuzzWatch.memoryLimit / 1_024 {
                held.append(Array(repeating: UInt8(truncatingIfNeeded: held.count), count: 1 << 20))
            }
            while true { sleep(1) }
        }
    }

    /// Overflows the stack by releasing deeply nested lists.
    private static func depth(_ level: Int) -> Int {
        var nest: Any = [0] as [Any]
        for _ in 0..<(1_000_000 + level) { nest = [nest] as [Any] }
        return (nest as? [Any])?.count ?? 0
    }
}
