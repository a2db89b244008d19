import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// What is read in place is what the decoder reads, or is left to it.
@Suite(.tags(.decoding), .timeLimit(.patience))
struct QuickRequestTests {
    private static let push = "freshet.push.received.v1"
    private static let change = "freshet.app.changed.v1"

    private func quick(_ message: Message, _ topic: EventTopic = .pushes, maximum: Int = 4096) -> QuickRequest? {
        var attributes = EventAttributes()
        for header in message.headers { attributes.note(name: header.name, value: header.value, in: message.arena) }
        return QuickRequest(
            bytes: message.arena, value: message.value, attributes: attributes, topic: topic, maximumBytes: maximum)
    }

    @Test(arguments: [
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"device":"d-1"},"kinds":["B","A","B"]}"#,
        #"{"kinds":"all","audience":{"widget":"0123456789abcdef"},"app":"a.b"}"#,
        #"{"app":"a.b","audience":{"everyone":true},"kinds":"all"}"#,
        " {\n\t\"app\" : \"a.b\" , \"audience\" : { \"user\" : \"u 1\" } ,\r \"kinds\" : [ \"A\" , \"B\" ] } ",
    ])
    func taken(data: String) throws {
        let message = Message.binary(Self.push, data)
        let request = try #require(quick(message))
        guard case .push(let expected) = try message.decode(.pushes).get().event else {
            Issue.record("no push")
            return
        }
        #expect(request.decoded(from: message.arena) == expected)
    }

    @Test(arguments: ["foreground", "background"])
    func states(state: String) throws {
        let message = Message.binary(
            Self.change, #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"],"state":"\#(state)"}"#)
        let request = try #require(quick(message, .appChanges))
        guard case .appChange(let expected) = try message.decode(.appChanges).get().event else {
            Issue.record("no change")
            return
        }
        #expect(request.decoded(from: message.arena) == expected)
    }

    /// Some of it valid, all of it for the decoder.
    @Test(arguments: [
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"],"matching":{"card":"acme"}}"#,
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"],"further":1}"#,
        #"{"app":"a.b","app":"a.b","audience":{"user":"u1"},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"user":"u1","user":"u1"},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"everyone":false},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"user":"\u0041"},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"user":"é"},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"user":""},"kinds":["A"]}"#,
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":[]}"#,
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A",]}"#,
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":"some"}"#,
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"]} x"#,
        #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"]"#,
        #"{"app":"a.b","audience":{"user":"u1"}}"#,
        #"{"app":"a.b","audience":{"user":7},"kinds":["A"]}"#,
        "", "{}", "[]", "null",
    ])
    func declined(data: String) {
        #expect(quick(.binary(Self.push, data)) == nil)
    }

    @Test(arguments: [
        ("ce_specversion", "0.3"), ("ce_id", ""), ("ce_source", "a\u{7F}b"), ("ce_type", "freshet.push.received.v2"),
        ("ce_time", "2026-02-30T10:00:00Z"), ("ce_time", "2026-06-31T10:00:00Z"), ("ce_time", "2026-06-22T24:00:00Z"),
        ("ce_time", "2026-06-22T10:00:00.Z"), ("ce_time", "yesterday"), ("content-type", "text/plain"),
        ("content-type", "application/cloudevents+json"),
    ])
    func attributes(name: String, value: String) {
        let data = #"{"app":"a.b","audience":{"user":"u1"},"kinds":["A"]}"#
        #expect(quick(.binary(Self.push, data)) != nil)
        #expect(quick(.binary(Self.push, data, replacing: [name: bytes(value)])) == nil)
    }

    @Test func limits() {
        func data(_ user: Int) -> String {
            #"{"app":"a.b","audience":{"user":"\#(String(repeating: "u", count: user))"},"kinds":["A"]}"#
        }
        #expect(quick(.binary(Self.push, data(Text.maximumIdentifierBytes))) != nil)
        #expect(quick(.binary(Self.push, data(Text.maximumIdentifierBytes + 1))) == nil)
        #expect(quick(.binary(Self.push, data(10)), maximum: 40) == nil)
        #expect(quick(.binary(Self.push, data(10)), .appChanges) == nil)
        #expect(quick(.binary(Self.push, nil)) == nil)
    }

    /// Valid and broken messages: what is taken is exactly what the decoder says.
    @Test func differences() throws {
        var random = SystemRandomNumberGenerator()
        let awkward = Array("\"\\{}[],: aeu\n".utf8) + [0, 0x7F, 0x80, 0xC3, 0xFF]
        var taken = 0
        for round in 0..<60_000 {
            let isPush = round % 2 == 0
            let request = ReloadRequest(
                app: ["a.b", "com.example.bank"].randomElement() ?? "",
                audience: [.user("u\(round)"), .device("d"), .widget("w-0123456789"), .everyone].randomElement()
                    ?? .everyone,
                kinds: KindScope(names: (0..<Int.random(in: 0...3)).map { "Kind\($0)" }) ?? .all,
                reason: isPush ? .push : [.foreground, .background].randomElement() ?? .background)
            let encoded = EventEncoder.encode(
                isPush ? .push(request) : .appChange(request), id: "\(round)", source: "s",
                time: Timestamp(microseconds: Int64.random(in: 0...2_000_000_000_000_000)))
            var headers = encoded.headers.map { ($0.name, Optional($0.value)) }
            var value = encoded.value ?? []
            for _ in 0..<(round % 3) {
                let place = Int.random(in: value.indices, using: &random)
                switch Int.random(in: 0..<5, using: &random) {
                case 0: value[place] = awkward.randomElement() ?? 0
                case 1: value.insert(awkward.randomElement() ?? 0, at: place)
                case 2: value.remove(at: place)
                case 3: value.insert(contentsOf: value[place..<min(value.count, place + 9)], at: place)
                default:
                    let header = Int.random(in: headers.indices, using: &random)
                    var text = headers[header].1 ?? []
                    if !text.isEmpty { text[Int.random(in: text.indices)] = awkward.randomElement() ?? 0 }
                    headers[header].1 = text
                }
                if value.isEmpty { value = [0x20] }
            }
            let message = Message(headers, value)
            let topic: EventTopic = isPush ? .pushes : .appChanges
            guard let found = quick(message, topic) else { continue }
            taken += 1
            switch message.decode(topic) {
            case .success(let decoded):
                let read = found.decoded(from: message.arena)
                #expect(decoded.event == (isPush ? .push(read) : .appChange(read)))
            case .failure(let error):
                Issue.record("taken, but it is refused: \(error)")
            }
        }
        #expect(taken > 20_000)
    }
}
