import ArgumentParser
import FreshetService
import WidgetModel
import WidgetSimulator

struct LoadHabitsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "habits",
        abstract: "Compares the prediction of habits with simple ones, on synthetic people.",
        discussion: """
            Needs neither Kafka nor PostgreSQL. Precision is the part of the views whose widget was on top. The error is \
            the mean distance of a stated probability of at least 5% and the part of the half hours with a view: first on \
            days of one weekday, then over all days, where errors of different weekdays cancel out.

            Examples:
              freshet-load habits --people 500 --seed 1
              freshet-load habits --people 20 --json
            """)

    @Option(help: "Number of people in each population.", transform: OptionText.number(1...100_000))
    var people = 100

    @Option(help: "Seed of the people.")
    var seed: UInt64 = 1

    @Flag(help: "Print the result as JSON.")
    var json = false

    func run() async throws {
        let evaluation = HabitEvaluation(people: people, seed: seed)
        if json { Terminal.print(evaluation.json) } else { Terminal.print(evaluation.table) }
    }
}

extension HabitEvaluation {
    var json: JSONValue {
        .array(
            scores.flatMap { population, scores in
                scores.map { score in
                    [
                        "population": .string(population.rawValue), "predictor": .string(score.predictor),
                        "views": .integer(score.views), "precisionAt1": .rounded(score.precision),
                        "calibrationError": .rounded(score.calibration?.error),
                        "pooledCalibrationError": .rounded(score.calibration?.pooledError),
                    ]
                }
            })
    }

    /// A line for each population; each predictor with its precision and, in brackets, its calibration errors: by
    /// weekday, and over all days.
    var table: String {
        let head = ["population"] + (scores.first?.scores.map(\.predictor) ?? [])
        let rows = scores.map { population, scores in
            [population.rawValue]
                + scores.map { score in
                    Figure.digits(score.precision)
                        + (score.calibration.map {
                            " (\(Figure.digits($0.error)), \(Figure.digits($0.pooledError)))"
                        } ?? "")
                }
        }
        return ([head] + rows).map { $0.map { $0.padded(to: 22) }.joined() }.joined(separator: "\n")
    }
}
