import ArgumentParser
import FreshetService
import SampleProvider

/// Random choice of widgets: all equally often, or by Zipf's law over people, and over the widgets of each person.
struct PopularWidgets: Sendable {
    private let world: LoadWorld
    private let ranks: (people: ZipfRanks, widgets: ZipfRanks)?

    /// Creates a choice among the widgets of a world.
    ///
    /// - Parameter exponent: exponent of Zipf's law; nil for equal popularity.
    init(of world: LoadWorld, exponent: Double?) {
        self.world = world
        ranks = exponent.map {
            (ZipfRanks(count: world.users, exponent: $0), ZipfRanks(count: world.widgetsPerUser, exponent: $0))
        }
    }

    /// Returns the index of a random widget in the world.
    func next(using random: inout SampleRandom) -> Int {
        let person = ranks.map { $0.people.sample(using: &random) - 1 } ?? random.below(world.users)
        let place = ranks.map { $0.widgets.sample(using: &random) - 1 } ?? random.below(world.widgetsPerUser)
        return person * world.widgetsPerUser + place
    }
}

/// Options of events that wait in Kafka when the service starts.
struct BacklogOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Popularity of people and their widgets: \(Self.form).", valueName: "form"))
    var distribution = "uniform"

    @Option(
        help: "Passes, each of all the events: the last is the result, the first the cold one.",
        transform: OptionText.number(1...10))
    var passes = 2

    private static let form = "uniform, zipf, or zipf:s (s from 0.1 to 5)"

    func validate() throws { _ = try exponent() }

    /// Returns the exponent of Zipf's law; nil for equal popularity.
    ///
    /// - Throws: `ValidationError`, which names the option.
    func exponent() throws -> Double? {
        do throws(StreamProblem) {
            let shape = try StreamDistribution.parse(distribution, day: 60)
            if shape.profile == .steady { return shape.exponent }
        } catch {
            throw ValidationError("--distribution \(distribution): expected \(Self.form)")
        }
        throw ValidationError(
            "--distribution \(distribution): expected \(Self.form); what waits in Kafka has no rate that could change")
    }
}
