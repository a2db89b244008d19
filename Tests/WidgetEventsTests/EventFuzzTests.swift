// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// Broken messages of all types never trap, and every error can be stored.
@Suite(.tags(.decoding, .property), .timeLimit(.patience))
struct EventFuzzTests {
    private func mutate(_ bytes: inout [UInt8], _ random: inout SeededGenerator) {
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            guard !bytes.isEmpty else { return }
            let index = Int.random(in: bytes.indices, using: &random)
            let awkward = Array("\"\\{}[],:0-eu \n\u{0}".utf8) + [0x80, 0xC0, 0xED, 0xF4, 0xFF]
            switch Int.random(in: 0..<6, using: &random) {
            case 0: bytes[index] = UInt8.random(in: .min ... .max, using: &random)
            case 1: bytes[index] = awkward.randomElement(using: &random) ?? 0
            case 2: bytes.remove(at: index)
            case 3: bytes.insert(awkward.randomElement(using: &random) ?? 0, at: index)
            case 4: bytes.removeLast(bytes.count - index)
            default:
                let end = Int.random(in: index...bytes.count, using: &random)
                bytes.insert(contentsOf: bytes[index..<end], at: index)
            }
        }
    }

    @Test func mutatedMessages() throws {
        var random = SeededGenerator(seed: 41)
        let samples = try Samples.all().map { event in
            (
                event: event,
                binary: event.encode(id: "1", source: "s", time: Timestamp(microseconds: 0)),
                structured: event.structured(id: "1", source: "s", time: Timestamp(microseconds: 0))
            )
        }
        let decoder = EventDecoder(maximumEventBytes: 400)
        var accepted = 0
        var codes: Set<EventError.Code> = []
        for round in 0..<120_000 {
            let sample = samples[round % samples.count]
            var headers: [(String, [UInt8]?)] = [("content-type", bytes(FreshetEvent.structuredContentType))]
            var value = sample.structured
            if round % 3 != 0 {
                headers = sample.binary.headers.map { ($0.name, $0.value) }
                value = sample.binary.value ?? []
                if round % 5 == 0 {
                    let index = Int.random(in: headers.indices, using: &random)
                    var header = headers[index].1 ?? []
                    mutate(&header, &random)
                    headers[index].1 = header
                }
            }
            if round % 5 != 0 || round % 3 == 0 { mutate(&value, &random) }
            let topic = round % 11 == 0 ? EventTopic.allCases[round % 3] : sample.event.type.topic
            switch Message(headers, value).decode(topic, decoder) {
            case .success(let decoded):
                accepted += 1
                if decoded.event.type.topic != topic || Text.identifierProblem(decoded.event.app) != nil {
                    Issue.record("accepted \(decoded)")
                }
            case .failure(let error):
                codes.insert(error.code)
                if Text.containsControlCharacter(error.message) { Issue.record("\(error.message.debugDescription)") }
                if let app = error.app, Text.identifierProblem(app) != nil { Issue.record("app \(app)") }
                if let pointer = error.pointer, JSONPointer(pointer) == nil || Text.containsControlCharacter(pointer) {
                    Issue.record("pointer \(pointer)")
                }
            }
        }
        #expect(accepted > 3000 && accepted < 60_000, "\(accepted) accepted")
        #expect(codes.subtracting([.missingData]).count >= 10, "\(codes)")
    }
}
