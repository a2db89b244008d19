// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Randomness
import Testing

@testable import freshet_load

@Suite("Popularity of widgets in a backlog")
struct PopularWidgetsTests {
    private static let world = LoadWorld(users: 1_000, widgetsPerUser: 4, kinds: 20)

    private func chosen(_ exponent: Double?, seed: UInt64 = 1, count: Int = 20_000) -> [Int] {
        let widgets = PopularWidgets(of: Self.world, exponent: exponent)
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in widgets.next(using: &random) }
    }

    @Test("Equal seeds select equal widgets, different ones others", arguments: [nil, 1, 1.5] as [Double?])
    func seeds(exponent: Double?) {
        #expect(chosen(exponent) == chosen(exponent))
        #expect(chosen(exponent) != chosen(exponent, seed: 2))
        #expect(chosen(exponent).allSatisfy { (0..<Self.world.widgets).contains($0) })
    }

    @Test("By Zipf's law the first person and each person's first widget are the most popular; otherwise all are equal")
    func popularity() {
        func counts(_ widgets: [Int], by divide: (Int) -> Int) -> [Int: Int] {
            widgets.reduce(into: [:]) { $0[divide($1), default: 0] += 1 }
        }
        let people = counts(chosen(1)) { $0 / Self.world.widgetsPerUser }
        // A share of 1 / (1 + 1/2 + … + 1/1000) = 0.1336.
        #expect((2_400...2_950).contains(people[0] ?? 0))
        #expect(people[0] ?? 0 > (people[1] ?? 0) + (people[2] ?? 0) / 2)
        let places = counts(chosen(1)) { $0 % Self.world.widgetsPerUser }
        #expect((0..<3).allSatisfy { (places[$0] ?? 0) > (places[$0 + 1] ?? 0) })
        #expect(counts(chosen(nil)) { $0 / Self.world.widgetsPerUser }.values.max() ?? 0 < 60)
    }

    @Test(
        "Distributions on the command line are parsed",
        arguments: [("uniform", nil), ("zipf", 1), ("zipf:1.3", 1.3)] as [(String, Double?)])
    func option(text: String, exponent: Double?) throws {
        #expect(try BacklogOptions.parse(["--distribution", text]).exponent() == exponent)
        #expect(try LoadDrain.parse(["--distribution", text]).backlog.exponent() == exponent)
    }

    @Test(
        "Rate profiles do not apply to backlogs", arguments: ["bursty", "zipf+diurnal", "zipf:9", "pareto", ""])
    func refused(text: String) {
        let error = #expect(throws: (any Error).self) { try BacklogOptions.parse(["--distribution", text]) }
        let message = error.map { BacklogOptions.message(for: $0) } ?? ""
        #expect(message.contains("--distribution \(text): expected uniform, zipf, or zipf:s"))
    }

    @Test("With a timeline for each event a distribution is refused")
    func distinct() throws {
        #expect(throws: (any Error).self) {
            try LoadIngest.parse(["--targets", "all", "--events", "10", "--distribution", "zipf"])
        }
        _ = try LoadIngest.parse(["--targets", "10", "--events", "10", "--distribution", "zipf"])
    }
}
