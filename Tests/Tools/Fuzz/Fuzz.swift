import Foundation
import Fuzzing
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// `fuzz [INPUTS] [--seed S] [--target NAME] [--from N] [--trace] [--root DIRECTORY]`: broken input for everything that reads what
/// comes from outside. Exit code 1 for a finding, 2 for a wrong call; a crash and a hang end the process by a signal.
///
/// Before each block of inputs it says on standard error which one it is, so that what a crash leaves names the block;
/// with `--trace` it does so for each input.
@main
enum Fuzz {
    struct Options {
        var inputs = 1_000_000
        var seed: UInt64 = 1
        var targets = FuzzTarget.allCases
        var from = 0
        var isTraced = false
        var root = "."
    }

    private static let block = 5_000
    /// The most that an input may take, generously.
    private static let longest = Duration.seconds(2)
    /// The most memory that the process may ever have had, in kilobytes.
    private static let memoryLimit = 512 * 1024
    /// Counts inputs, for the watch.
    private static let progress = Atomic<Int>(0)

    static func main() {
        guard let options = options(CommandLine.arguments.dropFirst()) else {
            print("usage: fuzz [INPUTS] [--seed S] [--target NAME] [--from N] [--trace] [--root DIRECTORY]")
            print("targets: \(FuzzTarget.allCases.map(\.rawValue).joined(separator: " "))")
            exit(2)
        }
        let corpus: Corpus
        do {
            corpus = try Corpus(root: options.root)
        } catch {
            print("fuzz: no examples to begin with: \(error)")
            exit(2)
        }
        watch()
        let fuzzer = Fuzzer(corpus: corpus, seed: options.seed)
        let began = ContinuousClock.now
        var findings = 0
        for (index, target) in options.targets.enumerated() {
            let share = options.inputs / options.targets.count
            let rest = index < options.inputs % options.targets.count ? 1 : 0
            findings += run(fuzzer, target, options.from..<(options.from + share + rest), options)
        }
        let seconds = (ContinuousClock.now - began) / .seconds(1)
        let memory = peakMemory()
        print(
            """
            fuzz: \(options.inputs) inputs, seed \(options.seed), \(Int(seconds)) s, \(memory / 1024) MiB at most, \
            \(findings) findings, 0 crashes, 0 hangs
            """)
        if memory > memoryLimit {
            print("fuzz: more than \(memoryLimit / 1024) MiB")
            exit(1)
        }
        if findings > 0 { exit(1) }
    }

    private static func run(_ fuzzer: Fuzzer, _ target: FuzzTarget, _ numbers: Range<Int>, _ options: Options) -> Int {
        var (accepted, bytes, findings) = (0, 0, 0)
        var slowest: (time: Duration, number: Int) = (.zero, 0)
        for number in numbers {
            if options.isTraced || (number - numbers.lowerBound) % block == 0 {
                let last = options.isTraced ? number : min(number + block, numbers.upperBound) - 1
                note("fuzz: --seed \(options.seed) --target \(target.rawValue) --from \(number), up to \(last)")
            }
            let began = ContinuousClock.now
            do throws(FuzzFinding) {
                let outcome = try fuzzer.run(target, number)
                if outcome.isAccepted { accepted += 1 }
                bytes += outcome.bytes
            } catch {
                findings += 1
                if findings <= 10 {
                    print("fuzz: \(target.rawValue): \(error)")
                    print(
                        "  again: deploy/local/test --fuzz 1 --seed \(options.seed) --target \(target.rawValue) --from \(number)"
                    )
                }
            }
            let time = ContinuousClock.now - began
            if time > slowest.time { slowest = (time, number) }
            progress.add(1, ordering: .relaxed)
        }
        if slowest.time > longest {
            findings += 1
            print("fuzz: \(target.rawValue): input \(slowest.number) took \(slowest.time)")
        }
        print(
            """
            fuzz: \(target.rawValue): \(numbers.count) inputs, \(bytes / max(1, numbers.count)) bytes on average, \(accepted) accepted, \
            slowest \(Int(slowest.time / .milliseconds(1))) ms, \(findings) findings
            """)
        return findings
    }

    private static func note(_ text: String) {
        fputs(text + "\n", stderr)
    }

    /// Ends the process when an input takes for ever.
    private static func watch() {
        Thread.detachNewThread {
            var last = -1
            while true {
                sleep(30)
                let now = progress.load(ordering: .relaxed)
                if now == last {
                    note("fuzz: an input has taken 30 s: a hang, in the block above")
                    abort()
                }
                last = now
            }
        }
    }

    /// In kilobytes.
    private static func peakMemory() -> Int {
        var usage = rusage()
        getrusage(RUSAGE_SELF, &usage)
        #if canImport(Darwin)
        return usage.ru_maxrss / 1024
        #else
        return usage.ru_maxrss
        #endif
    }

    private static func options(_ arguments: ArraySlice<String>) -> Options? {
        var options = Options()
        var arguments = arguments
        while let argument = arguments.popFirst() {
            switch argument {
            case "--trace": options.isTraced = true
            case "--seed":
                guard let seed = arguments.popFirst().flatMap({ UInt64($0) }) else { return nil }
                options.seed = seed
            case "--from":
                guard let from = arguments.popFirst().flatMap({ Int($0) }), from >= 0 else { return nil }
                options.from = from
            case "--target":
                guard let target = arguments.popFirst().flatMap({ FuzzTarget(rawValue: $0) }) else { return nil }
                options.targets = [target]
            case "--root":
                guard let root = arguments.popFirst() else { return nil }
                options.root = root
            default:
                guard let inputs = Int(argument), inputs > 0 else { return nil }
                options.inputs = inputs
            }
        }
        return options
    }
}
