// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite("A person's stacks and shortcuts", .timeLimit(.patience))
struct PersonRecordTests {
    /// A change with its expected effect.
    private final class Box {
        var value = PersonRecord()
    }

    /// A change with its time.
    private struct Dated {
        let change: PersonChange
        let at: Timestamp
    }

    private static func apply(_ dated: Dated, isOrderedByArrival: Bool = false, to box: Box) -> Bool {
        !box.value.apply(dated.change, at: dated.at, isOrderedByArrival: isOrderedByArrival).isIgnored
    }

    private static func remove(
        _ widget: String, _ time: Int, isOrderedByArrival: Bool = false, from box: Box
    ) -> Bool {
        !box.value.remove(widget: widget, at: at(time), isOrderedByArrival: isOrderedByArrival).isIgnored
    }

    private static func at(_ seconds: Int) -> Timestamp { Timestamp(microseconds: Int64(seconds) * 1_000_000) }

    private static func stack(_ name: String, _ widgets: [String], at time: Int) -> Dated {
        Dated(change: .stack(StackArrangement(device: "d1", name: name, widgets: widgets)), at: at(time))
    }

    private static func shortcuts(_ kinds: [String], _ device: String? = nil, at time: Int) -> Dated {
        let shortcuts = kinds.map {
            RelevantShortcut(content: WidgetContent(app: "a", kind: $0), ranges: [at(1)..<at(2)])
        }
        return Dated(change: .shortcuts(device: device, shortcuts), at: at(time))
    }

    private static func widgets(_ box: Box) -> [String: [String]] {
        Dictionary(box.value.stacks.map { ($0.arrangement.name, $0.arrangement.widgets) }) { $1 }
    }

    @Test(
        "An equal stack or set of shortcuts confirms the stored one and makes it newer"
    )
    func confirmed() {
        var record = PersonRecord()
        let changes = { (time: Int) in [Self.stack("s", ["a"], at: time), Self.shortcuts(["A"], at: time)] }
        #expect(changes(5).map { record.apply($0.change, at: $0.at) } == [.changed, .changed])
        #expect(changes(7).map { record.apply($0.change, at: $0.at) } == [.confirmed, .confirmed])
        #expect(
            [Self.stack("s", ["b"], at: 6), Self.shortcuts(["B"], at: 6)].map { record.apply($0.change, at: $0.at) }
                == [.ignored(.older), .ignored(.older)])
        #expect([Self.shortcuts(["B"], at: 8)].map { record.apply($0.change, at: $0.at) } == [.changed])
    }

    @Test("A removed widget leaves its stack unless the stack was arranged later")
    func removedWidget() {
        let box = Box()
        _ = Self.apply(Self.stack("s", ["a", "b"], at: 5), to: box)
        _ = Self.apply(Self.stack("t", ["c"], at: 9), to: box)
        #expect(!Self.remove("a", 4, from: box))
        #expect(!Self.remove("c", 8, from: box))
        #expect(Self.widgets(box) == ["s": ["a", "b"], "t": ["c"]])
        #expect(Self.remove("a", 5, from: box))
        #expect(Self.remove("c", 8, isOrderedByArrival: true, from: box))
        #expect(!Self.remove("a", 6, from: box))
        #expect(Self.widgets(box) == ["s": ["b"], "t": []])
    }

    @Test("The later of two arrangements applies in any order; at equal times, the last one received")
    func order() {
        let record = Box()
        #expect(Self.apply(Self.stack("s", ["a"], at: 5), to: record))
        #expect(!Self.apply(Self.stack("s", ["b"], at: 4), to: record))
        #expect(Self.apply(Self.stack("s", ["c"], at: 5), to: record))
        #expect(Self.widgets(record) == ["s": ["c"]])
        #expect(Self.apply(Self.stack("s", ["d"], at: 1), isOrderedByArrival: true, to: record))
        #expect(Self.widgets(record) == ["s": ["d"]] && record.value.stacks[0].changedAt == Self.at(5))
    }

    @Test("A widget is in at most one stack: that of the later event, in any order")
    func oneStack() {
        for changes in [[("s", 1), ("t", 2)], [("t", 2), ("s", 1)]] {
            let record = Box()
            for (name, time) in changes { #expect(Self.apply(Self.stack(name, ["a", name], at: time), to: record)) }
            #expect(Self.widgets(record) == ["s": ["s"], "t": ["a", "t"]])
        }
    }

    @Test("A removed stack stays removed for older events; too many stacks drop removed ones first")
    func removal() {
        let record = Box()
        _ = Self.apply(Self.stack("gone", [], at: 9), to: record)
        #expect(!Self.apply(Self.stack("gone", ["a"], at: 8), to: record))
        for number in 0..<40 { _ = Self.apply(Self.stack("s\(number)", ["w\(number)"], at: number), to: record) }
        #expect(record.value.stacks.count == PersonRecord.maximumStacks)
        #expect(!record.value.stacks.contains { $0.arrangement.name == "gone" || $0.arrangement.name == "s0" })
    }

    @Test("A turn applies to an existing stack and must not be older than the last one")
    func turns() {
        let record = Box()
        func turn(_ widget: String, _ time: Int) -> Dated {
            Dated(change: .turned(device: "d1", stack: "s", widget: widget), at: Self.at(time))
        }
        #expect(!Self.apply(turn("a", 1), to: record))
        _ = Self.apply(Self.stack("s", ["a", "b"], at: 1), to: record)
        #expect(Self.apply(turn("b", 3), to: record))
        #expect(!Self.apply(turn("a", 3), to: record))
        #expect(Self.apply(turn("a", 2), isOrderedByArrival: true, to: record))
        // The turn stays in effect when the stack is arranged again.
        _ = Self.apply(Self.stack("s", ["b", "a"], at: 4), to: record)
        #expect(record.value.stacks[0].turn == Stack.Turn(widget: "a", at: Self.at(3)))
    }

    @Test("A turn to an unknown widget has no effect; a turn to a suggestion counts")
    func unknownTurns() {
        let record = Box()
        func turn(_ widget: String, _ time: Int) -> Dated {
            Dated(change: .turned(device: "d1", stack: "s", widget: widget), at: Self.at(time))
        }
        _ = Self.apply(Self.stack("s", ["a", "b"], at: 1), to: record)
        _ = Self.apply(Self.stack("t", ["c"], at: 1), to: record)
        #expect(Self.apply(turn("b", 2), to: record))
        for unknown in ["nothing", "c"] {
            #expect(!Self.apply(turn(unknown, 3), isOrderedByArrival: true, to: record))
        }
        #expect(record.value.stacks[0].turn == Stack.Turn(widget: "b", at: Self.at(2)))
        let key = StackPlan.Key(app: "a", user: "u", device: "d1", stack: "s")
        let plan = StackPlan(key: key, schedule: StackSchedule(), plannedAt: Self.at(0))
        let suggestion = plan.widget(of: WidgetContent(app: "a", kind: "K"))
        #expect(Self.apply(turn(suggestion, 4), to: record))
        #expect(record.value.stacks[0].turn == Stack.Turn(widget: suggestion, at: Self.at(4)))
    }

    @Test("F: setting the shortcuts replaces the whole set, and withdraws omitted ones")
    func sets() {
        let record = Box()
        _ = Self.apply(Self.shortcuts(["A", "B"], at: 1), to: record)
        _ = Self.apply(Self.shortcuts(["C"], "d1", at: 1), to: record)
        #expect(record.value.shortcuts(on: "d1").map(\.content.kind) == ["A", "B", "C"])
        #expect(record.value.shortcuts(on: "d2").map(\.content.kind) == ["A", "B"])
        _ = Self.apply(Self.shortcuts(["B"], at: 2), to: record)
        #expect(!Self.apply(Self.shortcuts(["A"], at: 1), to: record))
        #expect(record.value.shortcuts(on: "d2").map(\.content.kind) == ["B"])
        for number in 0..<20 { _ = Self.apply(Self.shortcuts(["D"], "x\(number)", at: 10 + number), to: record) }
        #expect(record.value.sets.count == PersonRecord.maximumSets)
    }

    @Test("The stored form is complete, and other data is refused")
    func storedForm() throws {
        for seed in 0..<40 {
            var random = SeededGenerator(seed: UInt64(seed))
            let record = Box()
            for _ in 0..<30 {
                let time = Int.random(in: 0..<100, using: &random)
                let name = "s\(Int.random(in: 0..<4, using: &random))"
                let changes: [Dated] = [
                    Self.stack(name, (0..<3).map { "w\((time + $0) % 12)" }, at: time),
                    Dated(
                        change: .turned(device: "d1", stack: name, widget: "w\(time % 12)"), at: Self.at(time)),
                    Self.shortcuts(["K\(time % 3)"], time % 2 == 0 ? nil : "d1", at: time),
                ]
                let choice = Int.random(in: 0..<4, using: &random)
                if choice < 3 {
                    _ = Self.apply(changes[choice], to: record)
                } else {
                    let halfHour = HalfHour(day: time % 40, index: time % 48)
                    _ = record.value.habits.learn([HabitKey(rawValue: UInt64(time))], at: halfHour)
                }
            }
            let read = PersonRecord(
                app: "a", habits: record.value.habits.encoded, arrangement: record.value.storedArrangement)
            #expect(read == record.value)
            let all = record.value.stacks.flatMap(\.arrangement.widgets)
            #expect(Set(all).count == all.count)
        }
        #expect(PersonRecord(app: "a", habits: nil, arrangement: nil) == PersonRecord())
        #expect(PersonRecord(app: "a", habits: [9], arrangement: nil) == nil)
        #expect(PersonRecord(app: "a", habits: nil, arrangement: "[]") == nil)
    }

    @Test(
        "A person with three stacks of four widgets, shortcuts, suggestions and maximal habits takes at most 2,048 bytes"
    )
    func size() {
        var record = PersonRecord()
        let time = Int(1_700_000_000)
        for stack in 0..<3 {
            let widgets = (0..<4).map { "widget-000000000-\(stack)\($0)" }
            let dated = Self.stack("stack\(stack)", widgets, at: time)
            #expect(record.apply(dated.change, at: dated.at) == .changed)
        }
        let turn = PersonChange.turned(device: "d1", stack: "stack0", widget: "widget-000000000-00")
        #expect(record.apply(turn, at: Self.at(time + 1)) == .changed)
        #expect(record.apply(Self.shortcuts(["RecentPurchases"], at: time).change, at: Self.at(time)) == .changed)
        var random = SeededGenerator(seed: 1)
        for number in 0..<4_000 {
            _ = record.habits.learn(
                [HabitKey(rawValue: UInt64(random.below(40)))],
                at: HalfHour(day: 20_000 + number / 60, index: random.below(HalfHour.perDay)))
        }
        let habits = record.habits.encoded.count
        #expect((Habits.maximumBytes - 200...Habits.maximumBytes).contains(habits))
        // With six times of suggestions and the id of the device, and the head of the row.
        let row = 6 * "1700000000000000 d1".utf8.count + 24 + "u-000000000".utf8.count + 12
        let bytes = record.storedArrangement.utf8.count + habits + row
        #expect(bytes <= 2_048, "\(record.storedArrangement.utf8.count) + \(habits) + \(row)")
    }
}
