// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@testable import freshet_load

@Suite(.timeLimit(.patience))
struct RateProfileTests {
    private func arrivals(_ profile: RateProfile, rate: Double, until end: Double, seed: UInt64 = 3) -> [Double] {
        var times = ArrivalTimes(profile: profile, rate: rate, seed: seed)
        var all: [Double] = []
        while true {
            let time = times.next()
            guard time < end else { return all }
            all.append(time)
        }
    }

    private func isSorted(_ times: [Double]) -> Bool {
        zip(times, times.dropFirst()).allSatisfy { $0 <= $1 }
    }

    @Test("A steady stream has equal intervals")
    func steady() {
        let times = arrivals(.steady, rate: 250, until: 4)
        #expect(times.count == 1_000)
        #expect(times.enumerated().allSatisfy { $1 == Double($0) / 250 })
    }

    @Test("Each period has one burst of the given length and rate, and a quiet rest")
    func bursts() {
        let bursts = RateProfile.bursts
        let times = arrivals(.bursty, rate: 1_000, until: 60)
        #expect(isSorted(times))
        #expect(abs(times.count - 60_000) <= 6)
        var starts: Set<Int> = []
        for period in 0..<6 {
            let begin = Double(period) * bursts.period
            let inPeriod = times.filter { $0 >= begin && $0 < begin + bursts.period }
            // Every period has the mean rate.
            #expect(abs(inPeriod.count - 10_000) <= 2)
            // Intervals are 1/5500 s in a burst and 1/500 s elsewhere: the span of the short ones is the burst.
            let dense = zip(inPeriod, inPeriod.dropFirst()).filter { $1 - $0 < 0.000_3 }
            #expect(abs(dense.count - 5_500) <= 3)
            let length = (dense.last?.1 ?? 0) - (dense.first?.0 ?? 0)
            #expect(abs(length - bursts.length) < 0.005)
            #expect(abs(Double(inPeriod.count - dense.count) - 4_500) <= 3)
            starts.insert(Int(((dense.first?.0 ?? 0) - begin) * 1_000))
        }
        #expect(starts.count > 1, "bursts start at different times")
    }

    @Test("The times of bursts follow from the seed")
    func seeds() {
        let times = arrivals(.bursty, rate: 1_000, until: 60)
        #expect(arrivals(.bursty, rate: 1_000, until: 60) == times)
        #expect(arrivals(.bursty, rate: 1_000, until: 60, seed: 4) != times)
    }

    @Test("A compressed day has the cosine's rate, day after day")
    func day() {
        let day = 24.0
        let times = arrivals(.diurnal(day: day), rate: 2_000, until: 2 * day)
        #expect(isSorted(times))
        #expect(abs(times.count - 96_000) <= 2)
        for hour in 0..<48 {
            let count = times.count { $0 >= Double(hour) && $0 < Double(hour + 1) }
            // Integral of 1 − 0.8 cos over the hour.
            let (from, to) = (Double(hour) / day * 2 * .pi, Double(hour + 1) / day * 2 * .pi)
            let expected = 2_000 * (1 - 0.8 * (sin(to) - sin(from)) / (to - from))
            #expect(abs(Double(count) - expected) <= 2, "hour \(hour)")
        }
        let night = times.count { $0 < 1 }
        let noon = times.count { $0 >= 11.5 && $0 < 12.5 }
        #expect(night < 500 && noon > 3_500)
    }
}
