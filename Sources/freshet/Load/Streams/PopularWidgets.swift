import ArgumentParser

/// Widgets chosen at random, one after the other: everyone alike, or by Zipf's law over people and, of each, their widgets. The
/// same seed gives the same ones.
struct PopularWidgets: Sendable {
    private let world: LoadWorld
    private let ranks: (people: ZipfRanks, widgets: ZipfRanks)?
    private var random: DemoRandom

    /// - Parameter exponent: of Zipf's law; nil for everyone alike.
    init(of world: LoadWorld, exponent: Double?, seed: UInt64) {
        self.world = world
        ranks = exponent.map {
            (ZipfRanks(count: world.users, exponent: $0), ZipfRanks(count: world.widgetsPerUser, exponent: $0))
        }
        random = DemoRandom(seed: seed)
    }

    mutating func next() -> Int {
        guard let ranks else { return Int.random(in: 0..<world.widgets, using: &random) }
        let person = ranks.people.sample(using: &random) - 1
        return person * world.widgetsPerUser + ranks.widgets.sample(using: &random) - 1
    }

    /// So many.
    mutating func next(_ count: Int) -> [Int] { (0..<count).map { _ in next() } }

    /// Every widget once, in random order.
    mutating func shuffled() -> [Int] { (0..<world.widgets).shuffled(using: &random) }
}

/// How popular the widgets are that the events of a backlog are for.
struct PopularityOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "How popular people and their widgets are: \(Self.form).", valueName: "form"))
    var distribution = "uniform"

    private static let form = "uniform, zipf, or zipf:s (s from 0.1 to 5)"

    func validate() throws { _ = try exponent() }

    /// Of Zipf's law; nil for everyone alike.
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
