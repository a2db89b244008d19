// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel

extension Fuzzer {
    private static let decoder = EventDecoder(maximumEventBytes: 65_536)

    /// Headers and value in one arena, as in a polled batch.
    private struct Message {
        var arena: [UInt8] = Array("{\"".utf8)
        var headers: [(name: Range<Int>, value: Range<Int>?)] = []
        var value: Range<Int>?

        mutating func append(_ bytes: [UInt8]) -> Range<Int> {
            let start = arena.count
            arena += bytes
            defer { arena += Array("\"1]".utf8) }
            return start..<(start + bytes.count)
        }

        mutating func append(header name: String, _ value: [UInt8]?) {
            let name = append(Array(name.utf8))
            headers.append((name, value.map { append($0) }))
        }
    }

    private var data: [[UInt8]] { corpus.events.map(\.data) }

    func binaryEvent(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let sample = random.any(corpus.events)
        var message = Message()
        var headers: [(String, [UInt8]?)] = [
            ("ce_specversion", "1.0"), ("ce_id", "e-1"), ("ce_source", "/tests"), ("ce_type", sample.type),
            ("ce_time", "2026-06-22T10:00:00Z"), ("content-type", "application/json"),
        ].map { ($0.0, Array($0.1.utf8)) }
        if random.chance(1, of: 4) {
            let index = random.below(headers.count)
            switch random.below(4) {
            case 0: headers.remove(at: index)
            case 1: headers[index].1 = nil
            case 2: headers.append(headers[index])
            default: headers[index].1 = random.mutated(headers[index].1 ?? [], with: data)
            }
        }
        for (name, value) in headers { message.append(header: name, value) }
        let value =
            random.chance(1, of: 10)
            ? sample.data : random.chance(1, of: 5) ? random.json(of: data) : random.json(of: [sample.data])
        message.value = message.append(value)
        return try decode(message, random.chance(1, of: 12) ? random.any(EventTopic.allCases) : topic(of: sample.type))
    }

    func structuredEvent(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let sample = random.any(corpus.events)
        var envelope = Array(
            "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/s\",\"type\":\"\(sample.type)\",".utf8)
        envelope += Array("\"time\":\"2026-06-22T10:00:00Z\",\"datacontenttype\":\"application/json\",\"data\":".utf8)
        envelope += sample.data + Array("}".utf8)
        var message = Message()
        message.append(header: "content-type", Array("application/cloudevents+json".utf8))
        message.value = message.append(random.chance(1, of: 20) ? envelope : random.json(of: [envelope]))
        return try decode(message, topic(of: sample.type))
    }

    private func topic(of type: String) -> EventTopic {
        EventType(rawValue: type)?.topic ?? .pushes
    }

    private func decode(_ message: Message, _ topic: EventTopic) throws(FuzzFinding) -> FuzzOutcome {
        let count = message.arena.count
        recorder?.note(message.arena)
        let decoded: DecodedEvent
        do throws(EventError) {
            decoded = try Self.decoder.decode(
                bytes: message.arena, value: message.value, headers: message.headers, topic: topic)
        } catch {
            try Self.check(message: error.message, pointer: error.pointer, of: count)
            if let app = error.app ?? message.value.flatMap({ EventDecoder.app(in: message.arena, value: $0) }) {
                try Self.expect(Text.identifierProblem(app) == nil, "an error names the app \(app)")
            }
            return FuzzOutcome(refused: count, as: error.code.rawValue)
        }
        try checkEvent(decoded.event, topic)
        return FuzzOutcome(accepted: count)
    }

    /// Checks that an accepted event is unchanged after encoding and decoding in both modes.
    private func checkEvent(_ event: FreshetEvent, _ topic: EventTopic) throws(FuzzFinding) {
        try Self.expect(event.type.topic == topic, "\(event.type) was accepted on \(topic)")
        try Self.expect(Text.identifierProblem(event.app) == nil, "accepted the app \(event.app.debugDescription)")
        let binary = event.encode(id: "1", source: "s", time: nil)
        var message = Message()
        for header in binary.headers { message.append(header: header.name, header.value) }
        message.value = binary.value.map { message.append($0) }
        try checkSame(event, message, topic)
        var structured = Message()
        structured.append(header: "content-type", Array(FreshetEvent.structuredContentType.utf8))
        structured.value = structured.append(event.structured(id: "1", source: "s", time: nil))
        try checkSame(event, structured, topic)
        if case .widget(.placed(let placement)) = event.change {
            try Self.checkCanonical(placement.configuration)
            let identities = (0..<2).map { _ in
                TimelineIdentity(
                    app: placement.app, kind: placement.kind, sharing: .perUser, variesBy: .all,
                    family: placement.family, configuration: placement.configuration,
                    environment: placement.environment, user: placement.user
                ).id
            }
            try Self.expect(identities[0] == identities[1], "the identity changes")
        }
    }

    private func checkSame(_ event: FreshetEvent, _ message: Message, _ topic: EventTopic) throws(FuzzFinding) {
        let again: DecodedEvent
        do throws(EventError) {
            again = try EventDecoder().decode(
                bytes: message.arena, value: message.value, headers: message.headers, topic: topic)
        } catch {
            throw FuzzFinding("decoding the encoded event failed: \(error)")
        }
        try Self.expect(again.event == event, "encoding and decoding changed it to \(again.event)")
    }

    /// Checks that the canonical form of a configuration is stable.
    static func checkCanonical(_ configuration: WidgetConfiguration) throws(FuzzFinding) {
        let canonical = configuration.canonical
        try expect(canonical.utf8.count <= WidgetConfiguration.maximumBytes, "\(canonical.utf8.count) bytes")
        let again: WidgetConfiguration
        do throws(ModelError) {
            again = try WidgetConfiguration(json: Array(canonical.utf8))
        } catch {
            throw FuzzFinding("the canonical form is refused: \(error)")
        }
        try expect(again == configuration, "the canonical form is not stable: \(again)")
    }

    func timelineUpdated(_ random: inout InputGenerator) throws(FuzzFinding) -> FuzzOutcome {
        let samples = corpus.events.filter { $0.type == TimelineUpdatedEvent.type }.map(\.data)
        let bytes = random.json(of: samples.isEmpty ? data : samples)
        recorder?.note(bytes)
        let event: TimelineUpdatedEvent
        do throws(JSONError) {
            event = try TimelineUpdatedEvent(data: bytes)
        } catch {
            try Self.check(error, of: bytes.count)
            return FuzzOutcome(refused: bytes.count, as: "\(error.kind)")
        }
        let again: TimelineUpdatedEvent
        do throws(JSONError) {
            again = try TimelineUpdatedEvent(data: event.data)
        } catch {
            throw FuzzFinding("decoding the encoded event failed: \(error)")
        }
        try Self.expect(again == event, "encoding and decoding changed it to \(again)")
        return FuzzOutcome(accepted: bytes.count)
    }
}
