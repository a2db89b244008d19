// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.rules), .timeLimit(.patience))
struct KindCountersTests {
    @Test("Every counter is listed in fields exactly once")
    func fields() {
        var counters = KindCounters()
        for (index, field) in KindCounters.fields.enumerated() { counters[keyPath: field.path] = index + 1 }
        let values = Mirror(reflecting: counters).children.compactMap { $0.value as? Int }
        #expect(values.sorted() == Array(1...KindCounters.fields.count), "a counter without a field is not stored")
        #expect(Set(KindCounters.fields.map(\.name)).count == KindCounters.fields.count)
        #expect((counters + counters - counters) == counters && !counters.isZero)
        #expect((counters - counters).isZero)
    }

    @Test("Decisions and lints increment the counters of their names")
    func counting() {
        var counters = KindCounters()
        for decision in Decision.allCases { counters.count(decision, 2) }
        let byName = Dictionary(
            KindCounters.fields.map { ($0.name, counters[keyPath: $0.path]) }, uniquingKeysWith: { $1 })
        for decision in [Decision.reloaded, .unchanged, .failed, .deferred, .slept, .released] {
            #expect(byName[decision.name] == 2)
        }
        #expect(byName.values.reduce(0, +) == 12)
        counters = KindCounters()
        counters.count([.shortGap, .roundHour])
        counters.count([.singleEntryAtEnd, .roundHour])
        #expect(counters.shortGaps == 1 && counters.singleEntriesAtEnd == 1 && counters.roundHours == 2)
    }
}
