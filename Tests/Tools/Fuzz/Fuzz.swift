// SPDX-License-Identifier: Apache-2.0

import Foundation
import Fuzzing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// `fuzz [INPUTS] [--seed S] [--target NAME] [--from N] [--root DIRECTORY] [--input FILE] [--limit SECONDS] [--provoke
/// WHAT]` runs broken input through all parsers of external data.
///
/// Exit code 1 is a finding, 2 an invalid call, 3 a hang, 4 excessive memory; a crash ends the process by its signal.
/// Standard error always reports the input and the command that repeats it. `--provoke` makes an input behave badly, to
/// show that this is noticed.
@main
enum Fuzz {
    struct Options: Sendable {
        var inputs = 1_000_000
        var seed: UInt64 = 1
        var targets = FuzzTarget.allCases
        var from = 0
        var root = "."
        /// File for an input that causes a failure.
        var input = ".build/fuzz-input"
        /// Time limit of an input in seconds of wall-clock time; longer is a hang.
        var limit = 10
        var provoked: Provocation?
    }

    static func main() {
        guard let options = options(CommandLine.arguments.dropFirst()) else {
            print("usage: fuzz [INPUTS] [--seed S] [--target NAME] [--from N] [--root DIRECTORY] [--input FILE]")
            print(
                "            [--limit SECONDS] [--provoke \(Provocation.allCases.map(\.rawValue).joined(separator: "|"))]"
            )
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
        let recorder = InputRecorder(path: options.input)
        FuzzWatch.start(recorder, limit: options.limit)
        // As small as the smallest thread stacks, which nesting must not exhaust.
        let thread = Thread {
            FuzzWatch.catchSignals()
            exit(FuzzRun(corpus: corpus, recorder: recorder, options: options).run() ? 0 : 1)
        }
        thread.stackSize = 512 * 1024
        thread.start()
        while true { sleep(1_000) }
    }

    private static func options(_ arguments: ArraySlice<String>) -> Options? {
        var options = Options()
        var arguments = arguments
        while let argument = arguments.popFirst() {
            switch argument {
            case "--seed":
                guard let seed = arguments.popFirst().flatMap({ UInt64($0) }) else { return nil }
                options.seed = seed
            case "--from":
                guard let from = arguments.popFirst().flatMap({ Int($0) }), from >= 0 else { return nil }
                options.from = from
            case "--limit":
                guard let limit = arguments.popFirst().flatMap({ Int($0) }), limit > 0 else { return nil }
                options.limit = limit
            case "--target":
                guard let target = arguments.popFirst().flatMap({ FuzzTarget(rawValue: $0) }) else { return nil }
                options.targets = [target]
            case "--provoke":
                guard let what = arguments.popFirst().flatMap({ Provocation(rawValue: $0) }) else { return nil }
                options.provoked = what
            case "--input":
                guard let input = arguments.popFirst() else { return nil }
                options.input = input
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
