// SPDX-License-Identifier: Apache-2.0

import Simulation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// `simulate [SECONDS] [--seed S] [--count N] [--mutation NAME] [--journal]` runs random schedules with consecutive
/// seeds until the time is over or one fails. Exit code 1 is a failure, 2 an invalid call.
///
/// `--mutations` disables each protection in turn and prints the first seed that notices; exit code 1 if one is not
/// noticed within N seeds, a million by default.
@main
enum Simulate {
    struct Options {
        var seconds = 60
        var seed: UInt64 = 1
        var count: UInt64?
        var mutation: Mutation?
        var isForMutations = false
        var isJournalWanted = false
    }

    static func main() {
        guard let options = options(CommandLine.arguments.dropFirst()) else {
            print("usage: simulate [SECONDS] [--seed S] [--count N] [--mutation NAME | --mutations] [--journal]")
            print("mutations: \(Mutation.allCases.map(\.rawValue).joined(separator: " "))")
            exit(2)
        }
        if options.isForMutations { return checkMutations(from: options.seed, atMost: options.count ?? 2_600_000) }
        let clock = ContinuousClock()
        let began = clock.now
        let end = began + .seconds(options.seconds)
        var seed = options.seed
        var steps = 0
        while clock.now < end, seed - options.seed < options.count ?? .max {
            let schedule = Schedule(seed: seed)
            steps += schedule.steps.count
            if schedule.run(mutation: options.mutation) != nil {
                if options.isJournalWanted {
                    let least = schedule.minimised(mutation: options.mutation)
                    for line in least.journal(mutation: options.mutation) { print(line) }
                }
                print(schedule.report(mutation: options.mutation))
                print("again: deploy/local/test --simulate --seed \(seed) --count 1")
                exit(1)
            }
            seed += 1
        }
        let seconds = Double((clock.now - began) / .seconds(1))
        let count = seed - options.seed
        print(
            """
            simulate: \(count) schedules from seed \(options.seed), \(steps) steps and what healing took, \
            \(Int(seconds * 10) / 10) s, \(Int(Double(count) / max(seconds, 0.001))) schedules a second, 0 violations
            """)
    }

    private static func checkMutations(from first: UInt64, atMost count: UInt64) {
        var missed = 0
        for mutation in Mutation.allCases {
            let seeds = first..<(first + count)
            if let seed = seeds.first(where: { Schedule(seed: $0).run(mutation: mutation) != nil }) {
                let violation = Schedule(seed: seed).run(mutation: mutation).map { "\($0)" } ?? ""
                print("simulate: \(mutation): seed \(seed): \(violation)")
            } else {
                missed += 1
                print("simulate: \(mutation): NOT noticed by \(count) seeds")
            }
        }
        if missed > 0 { exit(1) }
    }

    private static func options(_ arguments: ArraySlice<String>) -> Options? {
        var options = Options()
        var arguments = arguments
        while let argument = arguments.popFirst() {
            switch argument {
            case "--seed":
                guard let seed = arguments.popFirst().flatMap({ UInt64($0) }) else { return nil }
                options.seed = seed
            case "--count":
                guard let count = arguments.popFirst().flatMap({ UInt64($0) }) else { return nil }
                options.count = count
            case "--journal":
                options.isJournalWanted = true
            case "--mutations":
                options.isForMutations = true
            case "--mutation":
                guard let mutation = arguments.popFirst().flatMap({ Mutation(rawValue: $0) }) else { return nil }
                options.mutation = mutation
            default:
                guard let seconds = Int(argument), seconds > 0 else { return nil }
                options.seconds = seconds
            }
        }
        return options
    }
}
