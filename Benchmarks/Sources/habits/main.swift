// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import WidgetModel
import WidgetSimulator

// `habits`: compares the prediction of habits with simple ones, on synthetic people. Precision is the part of the views
// whose widget was on top. The error is the mean distance of a stated probability of at least 5% and the part of the
// half hours with a view: first on days of one weekday, then over all days, where errors of different weekdays cancel
// out.

let usage = "usage: habits [--people NUMBER-IN-EACH-POPULATION] [--seed NUMBER] [--json]\n"
var (people, seed, printsJSON) = (100, UInt64(1), false)
var arguments = CommandLine.arguments.dropFirst()
while let argument = arguments.popFirst() {
    switch argument {
    case "--json": printsJSON = true
    case "--people": people = arguments.popFirst().flatMap { Int($0) } ?? 0
    case "--seed": if let number = arguments.popFirst().flatMap({ UInt64($0) }) { seed = number } else { people = 0 }
    default: people = 0
    }
}
guard (1...100_000).contains(people) else {
    FileHandle.standardError.write(Data(usage.utf8))
    exit(64)
}
let evaluation = HabitEvaluation(people: people, seed: seed)
print(printsJSON ? evaluation.json.canonical : evaluation.table)

extension HabitEvaluation {
    fileprivate var json: JSONValue {
        .array(
            scores.flatMap { population, scores in
                scores.map { score in
                    [
                        "population": .string(population.rawValue), "predictor": .string(score.predictor),
                        "views": .count(score.views), "precisionAt1": .rounded(score.precision),
                        "calibrationError": .rounded(score.calibration?.error),
                        "pooledCalibrationError": .rounded(score.calibration?.pooledError),
                    ]
                }
            })
    }

    /// A line for each population; each predictor with its precision and, in brackets, its calibration errors: by
    /// weekday, and over all days.
    fileprivate var table: String {
        func text(_ value: Double) -> String { String(format: "%.3f", value) }
        let head = ["population"] + (scores.first?.scores.map(\.predictor) ?? [])
        let rows = scores.map { population, scores in
            [population.rawValue]
                + scores.map { score in
                    let errors = score.calibration.map { " (\(text($0.error)), \(text($0.pooledError)))" } ?? ""
                    return text(score.precision) + errors
                }
        }
        return ([head] + rows).map { row in
            row.map { $0.padding(toLength: max(22, $0.count + 1), withPad: " ", startingAt: 0) }.joined()
        }.joined(separator: "\n")
    }
}
