// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("The time axis of a timeline", .tags(.api))
struct TimeAxisTests {
    private static func time(_ text: String) throws -> Timestamp { try #require(Timestamp(rfc3339: text)) }

    private static func axis(
        _ json: String, at now: String = "2026-06-22T10:10:00Z", timeZone: String = "Europe/Berlin"
    ) throws -> TimeAxis {
        try TimeAxis(
            title: "Due date", id: "t1", timeline: Array(json.utf8), link: "bank://cards", now: try time(now),
            timeZone: timeZone)
    }

    private static let timeline = """
        {"entries":[
        {"content":{"dark":{"sky":"moon"},"light":{"sky":"sun"}},"date":"2026-06-22T10:00:00Z","relevance":{"score":2}},
        {"content":{"sky":"rain"},"date":"2026-06-22T10:00:00Z","url":"sky://rain"},
        {"content":{"sky":"snow"},"date":"2026-06-22T12:00:00Z","relevance":{"duration":1800,"score":4}}],
        "policy":{"after":"2026-06-22T14:00:00Z"}}
        """

    @Test("Every entry is listed with its local time, variants, score and link")
    func entries() throws {
        let html = try Self.axis(Self.timeline).html.text
        #expect(html.components(separatedBy: "<li data-entry").count == 4)
        #expect(html.contains("22 Jun 14:00</span> <time datetime=\"2026-06-22T12:00:00Z\" "))
        #expect(html.contains("title=\"2026-06-22 14:00:00 Europe/Berlin\" data-relative>110 min from now</time>"))
        #expect(html.contains("aria-label=\"light\"><dl><div><dt>sky</dt><dd>sun</dd></div></dl>"))
        #expect(html.contains("aria-label=\"dark\"><dl><div><dt>sky</dt><dd>moon</dd></div></dl>"))
        #expect(html.contains("score 4"))
        #expect(html.contains("Opens <code>sky://rain</code>") && html.contains("Opens <code>bank://cards</code>"))
        #expect(html.contains("3 entries; the next reload is after 22 Jun 16:00; times in Europe/Berlin"))
    }

    @Test("Only content with variants has panels for light and dark; a missing variant has an empty one")
    func panels() throws {
        func html(_ content: String) throws -> String {
            try Self.axis(#"{"entries":[{"date":"2026-06-22T10:00:00Z","content":\#(content)}],"policy":"never"}"#).html
                .text
        }
        #expect(try html(#"{"sky":"rain"}"#).contains("<div class=\"sides one\"><div class=\"side-content\""))
        #expect(try !html(#"{"sky":"rain"}"#).contains("side-light"))
        #expect(try html(#"{"light":1}"#).contains("no dark variant"))
    }

    @Test("A legend names the bars, the strip and the lines; an axis over a year has years")
    func legend() throws {
        let html = try Self.axis(Self.timeline).html.text
        for name in ["relevance: <strong>at most 4<", "one entry each<", "earliest reload<", "now<", "shown at<"] {
            #expect(html.contains("</svg>\(name)"), "\(name)")
        }
        let never = try Self.axis(#"{"entries":[{"date":"2020-01-01T00:00:00Z","content":1}],"policy":"never"}"#)
        #expect(!never.html.text.contains("earliest reload") && never.html.text.contains(">2020-01-01 01:00</span>"))
        #expect(never.tickTimes.allSatisfy { $0.text.hasPrefix("20") })
    }

    @Test("The last of several entries with one date is current until the next date")
    func current() throws {
        let parts = try Self.axis(Self.timeline).html.text.components(separatedBy: "<li data-entry").dropFirst()
        #expect(parts.map { $0.contains("aria-current") } == [false, true, false])
        let later = try Self.axis(Self.timeline, at: "2026-06-23T00:00:00Z").html.text.components(
            separatedBy: "<li data-entry")
        #expect(later.dropFirst().map { $0.contains("aria-current") } == [false, false, true])
    }

    @Test("Relevance is drawn where the score is above zero, with its relative height")
    func relevance() throws {
        let drawing = try Self.axis(Self.timeline).drawing.svg.text
        let bars = drawing.split(separator: "<").filter { $0.contains("class=\"area\"") }
        #expect(bars.count == 2)
        #expect(bars.first?.contains("height=\"24\"") == true && bars.last?.contains("height=\"48\"") == true)
        #expect(drawing.contains("class=\"reload\""))
    }

    @Test("Ticks are at round local times and at most six", arguments: [60, 5_400, 86_400, 864_000, 315_360_000])
    func ticks(seconds: Int) throws {
        let end = try Self.time("2026-06-22T10:07:31Z") + .seconds(seconds)
        let axis = try Self.axis(
            """
            {"entries":[{"content":1,"date":"2026-06-22T10:07:31Z"}],"policy":{"after":"\(end.rfc3339)"}}
            """, timeZone: "Asia/Kolkata")
        #expect((1...6).contains(axis.tickTimes.count))
        #expect(axis.tickTimes.allSatisfy { axis.range.contains($0.time) && $0.time.microseconds % 60_000_000 == 0 })
        if seconds == 86_400 { #expect(axis.tickTimes.map(\.text) == ["18:00", "00:00", "06:00", "12:00"]) }
        if seconds == 864_000 {
            #expect(axis.tickTimes.allSatisfy { $0.text.hasSuffix(" Jun") || $0.text.hasSuffix(" Jul") })
        }
    }

    @Test("Entries at the ends of time are drawn")
    func extremes() throws {
        let axis = try Self.axis(
            """
            {"entries":[{"content":1,"date":"0001-01-01T00:00:00Z"},{"content":2,"date":"9999-12-31T23:59:59Z"}],
            "policy":"atEnd"}
            """)
        #expect(axis.html.text.contains("2 entries; the next reload is at the end"))
        #expect(axis.tickTimes.count <= 6)
    }

    @Test("An unknown time zone is replaced by UTC, and the caption shows that")
    func unknownZone() throws {
        #expect(try Self.axis(Self.timeline, timeZone: "Mars/Base").html.text.contains("16:00; times in UTC") == false)
        #expect(try Self.axis(Self.timeline, timeZone: "Mars/Base").html.text.contains("14:00; times in UTC"))
    }

    @Test("Hostile texts of a timeline are escaped", arguments: HostileTexts.all)
    func hostile(text: String) throws {
        let members = JSONObject([(key: text, value: .array([.string(text)]))])
        let value = JSONValue.object(["light": .object(members)])
        let timeline: JSONValue = [
            "entries": [["date": "2026-06-22T10:00:00Z", "content": value, "url": .string(text)]], "policy": "never",
        ]
        let axis = try TimeAxis(
            title: text, id: "t1", timeline: timeline.canonicalBytes, now: try Self.time("2026-06-22T10:10:00Z"),
            timeZone: text)
        let plain = try Self.axis(#"{"entries":[{"date":"2026-06-22T10:00:00Z","content":1}],"policy":"never"}"#)
        for mark in ["<script", "<img", "<iframe", "<animate", "onload=", "<!--"] {
            #expect(!Self.tags(axis.html.text).contains { $0.contains(mark) }, "\(text): \(mark)")
        }
        #expect(
            Set(Self.names(axis.html.text)).isSubset(
                of: Set(Self.names(plain.html.text)).union(["ul", "dl", "dt", "dd", "code", "span"])))
    }

    /// Returns the tags of a page as a browser finds them, outside of comments, without the values of attributes.
    private static func tags(_ html: String) -> [String] {
        html.components(separatedBy: "<").dropFirst().map { part in
            "<" + part.prefix { $0 != ">" }.replacing(/"[^"]*"/, with: "")
        }
    }

    private static func names(_ html: String) -> [String] {
        tags(html).map { tag in String(tag.dropFirst().drop { $0 == "/" }.prefix { $0.isLetter || $0.isNumber }) }
    }
}
