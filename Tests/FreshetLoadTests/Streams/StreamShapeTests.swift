// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import Randomness
import TestSupport
import Testing

@testable import freshet_load

extension ZipfRanks {
    /// Returns the expected share of a rank; linear in `count`.
    func share(of rank: Int) -> Double {
        let sum = (1...count).reversed().reduce(0.0) { $0 + pow(Double($1), -exponent) }
        return pow(Double(rank), -exponent) / sum
    }
}

@Suite(.timeLimit(.patience))
struct StreamShapeTests {
    @Test("Zipf's ranks have the frequencies of the law", arguments: [0.5, 0.99, 1, 1.5, 3])
    func zipf(exponent: Double) {
        let ranks = ZipfRanks(count: 1_000, exponent: exponent)
        var random = SeededGenerator(seed: 11)
        let samples = 400_000
        var counts = [Int](repeating: 0, count: 1_001)
        for _ in 0..<samples { counts[ranks.sample(using: &random)] += 1 }
        #expect(counts[0] == 0)
        // Each of these is within five standard deviations, and so is the sum of the tail.
        for rank in [1, 2, 3, 5, 10, 50, 200, 1_000] {
            let share = ranks.share(of: rank)
            let deviation = (Double(samples) * share * (1 - share)).squareRoot()
            #expect(abs(Double(counts[rank]) - Double(samples) * share) <= 5 * deviation + 1, "rank \(rank)")
        }
        let tail = (501...1_000).reduce(0.0) { $0 + ranks.share(of: $1) }
        let deviation = (Double(samples) * tail * (1 - tail)).squareRoot()
        #expect(abs(Double(counts[501...].reduce(0, +)) - Double(samples) * tail) <= 5 * deviation + 1)
    }

    @Test("Zipf's law works for very many ranks and for one")
    func extremes() {
        var random = SeededGenerator(seed: 2)
        let many = ZipfRanks(count: 1_000_000_000, exponent: 1)
        let samples = (0..<10_000).map { _ in many.sample(using: &random) }
        #expect(samples.allSatisfy { (1...1_000_000_000).contains($0) })
        // The harmonic number of 10^9 is 21.3.
        #expect(abs(samples.count { $0 == 1 } - 469) < 120)
        let one = ZipfRanks(count: 1, exponent: 1)
        #expect((0..<100).allSatisfy { _ in one.sample(using: &random) == 1 })
    }

    @Test("Distributions are parsed and printed")
    func distributions() throws {
        #expect(try StreamDistribution.parse("uniform", day: 60) == .uniform)
        #expect(try StreamDistribution.parse("zipf", day: 60).exponent == 1)
        #expect(try StreamDistribution.parse("zipf:1.2", day: 60).exponent == 1.2)
        #expect(try StreamDistribution.parse("bursty", day: 60).profile == .bursty)
        let both = try StreamDistribution.parse("zipf:2+diurnal", day: 30)
        #expect(both.exponent == 2 && both.profile == .diurnal(day: 30))
        #expect(both.description == "zipf:2.0+diurnal" && StreamDistribution.uniform.description == "uniform")
        for text in [
            "", "zipf:", "zipf:0", "zipf:9", "zipf:nan", "normal", "bursty+diurnal", "zipf+uniform", "uniform+",
        ] {
            #expect(throws: ValidationError.self, "\(text)") { try StreamDistribution.parse(text, day: 60) }
        }
    }

    private func choice(_ text: String) throws(ValidationError) -> WeightedChoice<StreamAudience> {
        try WeightedChoice(text, of: StreamPlan.audiences)
    }

    @Test("Weights are parsed")
    func weights() throws {
        let choice = try choice("user=90,device=8,widget=2")
        #expect(choice.value(at: 0) == .user && choice.value(at: 0.899) == .user)
        #expect(choice.value(at: 0.901) == .device && choice.value(at: 0.979) == .device)
        #expect(choice.value(at: 0.981) == .widget && choice.value(at: 0.999_999) == .widget)
        #expect(!choice.contains(.everyone))
        #expect(try self.choice("widget").value(at: 0.5) == .widget)
        #expect(try !self.choice("user=1,everyone=0").contains(.everyone))
    }

    @Test(
        "Weights without a sum, of unknown names and of names given twice are refused",
        arguments: ["", "user=0", "user=-1", "user=x", "people=1", "user=1,user=2", "user=inf", "user=1,"])
    func refusedWeights(text: String) {
        #expect(throws: ValidationError.self) { try choice(text) }
    }
}
