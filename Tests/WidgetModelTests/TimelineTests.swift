import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct TimelineTests {
    private let start = time("2020-06-22T10:00:00Z")

    private func entry(_ minutes: Int, _ name: String = "") -> TimelineEntry {
        TimelineEntry(date: start + .seconds(60 * minutes), content: .string(name))
    }

    @Test func theEntryShownIsTheLastOneNotLater() throws {
        let timeline = try #require(Timeline(entries: [entry(5, "b"), entry(0, "a"), entry(10, "c")], policy: .atEnd))
        #expect(timeline.entry(at: start - .microseconds(1)) == nil)
        #expect(timeline.entry(at: start)?.content == "a")
        #expect(timeline.entry(at: start + .seconds(299))?.content == "a")
        #expect(timeline.entry(at: start + .seconds(300))?.content == "b")
        #expect(timeline.entry(at: .distantFuture)?.content == "c")
        #expect(timeline.firstEntryDate == start)
        #expect(timeline.lastEntryDate == start + .seconds(600))
        #expect(Timeline(entries: [], policy: .atEnd) == nil)
    }

    @Test func equalDatesKeepTheirOrder() throws {
        let names = (0..<50).map(String.init)
        let timeline = try #require(
            Timeline(entries: names.map { entry(0, $0) } + [entry(-1, "first")], policy: .never))
        #expect(timeline.entries.map(\.content) == (["first"] + names).map { .string($0) })
        #expect(timeline.entry(at: start)?.content == "49")
    }

    /// The code-along's example: an entry a minute until the hero is healed, end excluded, relevance = health.
    @Test func healing() throws {
        let entries = stride(from: 0, to: 10, by: 1).map { minute in
            TimelineEntry(
                date: start + .seconds(60 * minute), content: .null,
                relevance: EntryRelevance(score: Double(minute) / 10))
        }
        let timeline = try #require(Timeline(entries: entries, policy: .atEnd))
        #expect(timeline.entries.count == 10)
        #expect(timeline.policy.earliestReload(lastEntry: timeline.lastEntryDate) == start + .seconds(540))
        #expect(timeline.entry(at: start + .seconds(90))?.relevance?.score == 0.1)
    }

    @Test func stored() throws {
        let text =
            #"{"entries":[{"content":{"a":1},"date":"2020-06-22T10:00:00Z","#
            + #""relevance":{"duration":1800,"score":16.29},"url":"bank://p/1"},"#
            + #"{"content":null,"date":"2020-06-22T11:00:00Z"}],"policy":{"after":"2020-06-22T22:00:00Z"}}"#
        let timeline = try Timeline(stored: bytes(text))
        #expect(timeline.policy == .after(time("2020-06-22T22:00:00Z")))
        #expect(timeline.policy.json == ["after": "2020-06-22T22:00:00Z"])
        #expect(
            timeline.entries == [
                TimelineEntry(
                    date: start, content: ["a": 1], relevance: EntryRelevance(score: 16.29, duration: 1800),
                    url: "bank://p/1"),
                TimelineEntry(date: start + .seconds(3600), content: .null),
            ])
        #expect(throws: JSONError.self) { try Timeline(stored: bytes(#"{"entries":[],"policy":"atEnd"}"#)) }
        #expect(throws: JSONError.self) { try Timeline(stored: bytes(#"{"entries":[]}"#)) }
        #expect(throws: JSONError.self) { try Timeline(stored: bytes("[]")) }
    }
}
