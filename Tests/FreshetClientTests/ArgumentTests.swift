// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Randomness
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import FreshetClient

/// Generates mostly valid arguments, some of them at and beyond every bound.
private struct Draw {
    var generator: SeededGenerator

    mutating func one<Value>(_ values: [Value]) -> Value { values[Int.random(in: 0..<values.count, using: &generator)] }
    mutating func isTrue(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &generator) < percent }

    mutating func identifier() -> String {
        if isTrue(80) { return one(["u1", "w-2", "Kind", "com.example.app", "é", "e\u{301}", "😀", "a b", "\"q\\"]) }
        return one([
            "", "a\u{0}", "a\n", "\u{85}", String(repeating: "x", count: 256), String(repeating: "x", count: 257),
            String(repeating: "é", count: 129),
        ])
    }

    mutating func audience() -> WidgetCenter.Audience {
        one([.everyone, .user(identifier()), .device(identifier()), .widget(identifier())])
    }

    mutating func kinds() -> [String] {
        if isTrue(90) { return (0..<Int.random(in: 1...3, using: &generator)).map { _ in identifier() } }
        return one([[], (0..<1_000).map { "k\($0)" }, (0..<1_001).map { "k\($0)" }, (0..<1_500).map { "k\($0 % 900)" }])
    }

    mutating func value(isNested: Bool = false) -> WidgetCenter.Value {
        switch Int.random(in: 0..<(isNested ? 9 : 11), using: &generator) {
        case 0: .null
        case 1: .bool(isTrue(50))
        case 2: .integer(one([0, -1, .max, .min, 1 << 53]))
        case 3: .decimal(one([0.1, -0.0, 1e300, .leastNonzeroMagnitude]))
        case 4: .decimal(one([.infinity, .nan, 1.5, 2.5]))
        case 5: .string(one(["", "a\u{0}b", "tab\t", "é"]))
        case 6, 7, 8: .string(identifier())
        case 9: .list((0..<Int.random(in: 0...3, using: &generator)).map { _ in value(isNested: true) })
        default: isTrue(10) ? .list([.list([1])]) : .list([])
        }
    }

    mutating func values() -> [String: WidgetCenter.Value] {
        if isTrue(2) { return ["text": .string(String(repeating: "x", count: one([16_000, 16_384])))] }
        var values: [String: WidgetCenter.Value] = [:]
        for _ in 0..<Int.random(in: 0...3, using: &generator) { values[identifier()] = value() }
        return values
    }

    mutating func environment() -> WidgetCenter.Environment {
        WidgetCenter.Environment(
            locale: one(["en", "en-US", "de_DE", "zh-Hans-CN", "e", "en US", ""].shuffledTowardsFirst(&generator)),
            timeZone: one(["Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "/", "Etc/GMT+5"]))
    }

    mutating func shortcut() -> WidgetCenter.RelevantShortcut {
        let start = Date(timeIntervalSince1970: one([0, 1_700_000_000, -1]))
        let ranges = (0..<one([0, 1, 2, 24, 25])).map { _ in start..<start.addingTimeInterval(one([60, 60, 60, 0])) }
        return WidgetCenter.RelevantShortcut(
            kind: isTrue(90) ? "Kind" : identifier(), configuration: isTrue(10) ? values() : [:],
            role: isTrue(50) ? nil : one(["work", "", String(repeating: "r", count: 65)]),
            ranges: isTrue(80) ? [] : ranges)
    }

    mutating func event() -> WidgetEvent {
        var event: WidgetEvent =
            switch Int.random(in: 0..<13, using: &generator) {
            case 0: .reloadTimelines(ofKind: identifier(), for: audience(), matching: values())
            case 1: .reloadTimelines(ofKinds: kinds(), for: audience(), matching: values())
            case 2: .reloadAllTimelines(for: audience(), matching: values())
            case 3:
                .appChanged(
                    one([.foreground, .background]), for: audience(), kinds: isTrue(50) ? kinds() : nil,
                    matching: values())
            case 4: .requestReload(for: audience(), kinds: isTrue(50) ? kinds() : nil, matching: values())
            case 5:
                .widgetPlaced(
                    identifier(), of: identifier(), device: identifier(), kind: identifier(),
                    family: one(WidgetCenter.Family.allCases), configuration: values(), environment: environment())
            case 6: .widgetConfigured(identifier(), of: identifier(), configuration: values())
            case 8:
                .stackChanged(
                    identifier(), of: identifier(), device: identifier(),
                    widgets: isTrue(90) ? [identifier(), identifier()] : (0..<one([32, 33])).map { "w\($0)" },
                    smartRotate: isTrue(50), suggestions: isTrue(50))
            case 9: .stackTurned(identifier(), of: identifier(), device: identifier(), to: identifier())
            case 10:
                .relevantShortcuts(
                    (0..<one([0, 1, 2, 20, 21])).map { _ in shortcut() }, of: identifier(),
                    device: isTrue(50) ? identifier() : nil)
            case 11:
                .interaction(
                    with: identifier(), configuration: values(), of: identifier(),
                    device: isTrue(50) ? identifier() : nil,
                    timeZone: isTrue(50) ? one(["Etc/UTC", "Europe/Berlin", "nowhere", ""]) : nil)
            case 7: isTrue(50) ? .widgetRemoved(identifier(), of: identifier()) : .widgetViewed("w", of: identifier())
            default:
                .environmentChanged(
                    ofDevice: identifier(), of: identifier(), to: environment(), significantTimeChange: isTrue(50))
            }
        if isTrue(10) { event.id = identifier() }
        if isTrue(5) { event.id = String(repeating: "i", count: one([1_024, 1_025])) }
        if isTrue(10) {
            event.date = Date(
                timeIntervalSince1970: one([
                    0, -1, 253_402_300_799.9, 253_402_300_800, .infinity, .nan, 1e300, -1e300, 1.000_001,
                ]))
        }
        return event
    }
}

extension Array {
    /// Returns the same values, with the first one repeated.
    fileprivate func shuffledTowardsFirst(_ generator: inout SeededGenerator) -> [Element] {
        isEmpty ? self : self + Array(repeating: self[0], count: 3) + prefix(4)
    }
}

@Suite(.timeLimit(.patience))
struct ArgumentTests {
    @Test("An integer that a double would round is refused with the advice to use a string")
    func inexactInteger() {
        let event = WidgetEvent.widgetConfigured(
            "w", of: "u", configuration: ["card": .integer(9_007_199_254_740_993)])
        let error = #expect(throws: WidgetCenterError.self) {
            try event.outgoing(app: "com.example.app", traceparent: nil)
        }
        #expect(error?.description.contains("/card") == true && error?.description.contains("use a string") == true)
    }

    @Test("Freshet's decoder reads every event that the library accepts, unchanged", arguments: [1, 2, 3])
    func acceptedIsDecodable(seed: UInt64) throws {
        var draw = Draw(generator: SeededGenerator(seed: seed))
        var accepted = 0
        var refused = 0
        for _ in 0..<4_000 {
            let event = draw.event()
            let outgoing: OutgoingEvent
            do throws(WidgetCenterError) {
                outgoing = try event.outgoing(app: "com.example.app", traceparent: nil)
            } catch {
                #expect(error.code == .invalidArgument && !error.isRetriable)
                refused += 1
                continue
            }
            accepted += 1
            let encoded = outgoing.event.encode(
                id: outgoing.id, source: "/tests", time: outgoing.time, key: outgoing.key)
            #expect(!encoded.key.isEmpty)
            var bytes = try #require(encoded.value)
            let value = 0..<bytes.count
            var headers: [(name: Range<Int>, value: Range<Int>?)] = []
            for header in encoded.headers {
                let start = bytes.count
                bytes += Array(header.name.utf8) + header.value
                let middle = start + header.name.utf8.count
                headers.append((start..<middle, middle..<bytes.count))
            }
            let decoded = try EventDecoder().decode(
                bytes: bytes, value: value, headers: headers, topic: outgoing.event.type.topic)
            #expect(decoded.event == outgoing.event, "\(event)")
            #expect(Text.equal(decoded.id, event.id) && decoded.time == outgoing.time)
        }
        #expect(accepted > 500 && refused > 500, "\(accepted) accepted, \(refused) refused")
    }

    @Test("An invalid source is refused when the center is created", arguments: ["", "a\nb", "long"])
    func source(text: String) {
        #expect {
            try WidgetCenter(
                app: "a",
                configuration: WidgetCenterConfiguration(
                    bootstrapServers: "127.0.0.1:1",
                    source: text == "long" ? String(repeating: "x", count: 1_025) : text),
                logger: quiet)
        } throws: { error in
            (error as? WidgetCenterError)?.code == .invalidArgument
        }
    }
}
