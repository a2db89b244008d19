import KafkaClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Requests that stay in their bytes are folded to what decoded ones are.
@Suite("What is read in place is folded like the rest", .timeLimit(.patience))
struct QuickFoldTests {
    private let topics = IngestTopics()

    private func message(_ event: FreshetEvent, _ offset: Int, spaced: Bool = false) -> KafkaBatch.Placed {
        let encoded = EventEncoder.encode(event, id: "\(offset)", source: "s", time: Timestamp(microseconds: 0))
        var value = encoded.value ?? []
        // White space is read in place; a further member is left to the decoder.
        if spaced, value.last == UInt8(ascii: "}") {
            value.replaceSubrange((value.count - 1)..., with: Array(",\"x\":1}".utf8))
        }
        return KafkaBatch.Placed(
            partition: Int32(offset % 3), offset: Int64(offset),
            message: KafkaMessage(
                topic: event.type.topic == .pushes ? topics.pushes : topics.appChanges, key: nil, value: value,
                headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) }, timestampMilliseconds: 1))
    }

    private func events(_ count: Int) -> [FreshetEvent] {
        (0..<count).map { _ in
            let kinds = [["Purchases"], ["DueDate"], ["DueDate", "Purchases"], [], ["Nothing"]].randomElement() ?? []
            let name = "\(Int.random(in: 0..<40))"
            let audience: Audience =
                [.user(name), .device(name), .widget(name), .everyone, .user("caf\u{E9}\(name)")].randomElement()
                ?? .everyone
            let reason: ReloadReason = [.push, .foreground, .background].randomElement() ?? .push
            let request = ReloadRequest(
                app: Bool.random() || Bool.random() ? SampleKind.appName : "com.example.unknown", audience: audience,
                kinds: KindScope(names: kinds) ?? .all, reason: reason)
            return reason == .push ? .push(request) : .appChange(request)
        }
    }

    private func summary(_ fold: BatchFold) -> [String] {
        [
            "\(fold.marks)", "\(fold.bumps)", "\(fold.urgentKinds.sorted())",
            "\(fold.rejected)", "\(fold.accepted)", "\(fold.eventCount)", "\(fold.events.sorted { $0.key < $1.key })",
            "\(fold.hasUnknownNames)", "\(fold.diverted)",
        ]
    }

    @Test("Either way the fold is the same", arguments: [[], [SampleKind.app]])
    func same(diverted: [Int32]) {
        let events = events(3_000)
        func fold(spaced: Bool) -> BatchFold {
            let batch = KafkaBatch(events.enumerated().map { message($1, $0, spaced: spaced) })
            let prepared = PreparedBatch(batch, topics: topics, decoder: EventDecoder())
            return prepared.fold(prepared.items, .sample, Set(diverted)).fold
        }
        #expect(summary(fold(spaced: false)) == summary(fold(spaced: true)))
    }

    @Test("A fold ends where its rows are too many for one transaction, and the next begins there")
    func limit() {
        let events = (0..<100).map { index in
            FreshetEvent.push(
                ReloadRequest(
                    app: SampleKind.appName, audience: .user("u\(index)"), kinds: .kinds(["Purchases"]), reason: .push))
        }
        let batch = KafkaBatch(events.enumerated().map { message($1, $0) })
        let prepared = PreparedBatch(batch, topics: topics, decoder: EventDecoder())
        let (fold, count) = prepared.fold(prepared.items, .sample, limit: 30)
        #expect(count == 30 && fold.markCount == 30)
        let next = prepared.next(after: prepared.items[..<count])
        #expect(Set(next.values) == [28, 29, 30])
        let rest = prepared.due(prepared.items, from: prepared.places.map { next[$0] })
        #expect(rest == Array(prepared.items[30...]))
        #expect(prepared.due(prepared.items, from: prepared.places.map { _ in nil }).isEmpty)
    }

    @Test("Keys are told apart by bytes and tag, whatever their length, and keep their numbers as the table grows")
    func table() {
        var table = ByteTable()
        var numbers: [String: Int] = [:]
        for round in 0..<2 {
            for length in 0..<40 {
                for variant in 0..<20 {
                    let text = String(repeating: "x", count: length) + "\(variant)"
                    let bytes = Array("padding\(text)more".utf8)
                    for tag in [UInt64(0), 7] {
                        let number = table.number(
                            of: 7..<(7 + text.utf8.count), in: bytes.span.bytes, tag: tag)
                        let key = "\(text)/\(tag)"
                        if round == 0 { numbers[key] = number }
                        #expect(numbers[key] == number)
                        #expect(String(decoding: table.key(number), as: UTF8.self) == text)
                    }
                }
            }
        }
        #expect(Set(numbers.values).count == numbers.count)
        #expect(table.count == numbers.count)
        #expect(table.number(of: 0..<0, in: [UInt8]().span.bytes, tag: 1) == table.count - 1)
    }
}
