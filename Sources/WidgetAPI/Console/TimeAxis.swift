// SPDX-License-Identifier: Apache-2.0

import Charts
package import JSON
package import WidgetModel

/// A stored timeline on a time axis: a drawing of its entries and their relevance, and the content of each entry.
///
/// Without a script all entries are listed. `time-axis.js` adds a slider and shows only the entry at the chosen time.
/// A page with an axis needs ``stylesheet`` and ``script`` among the assets of ``ConsolePage``.
package struct TimeAxis: Sendable {
    package static let stylesheet = "time-axis.css"
    package static let script = "time-axis.js"

    struct Entry: Sendable {
        let date: Timestamp
        /// Beginning of the next entry; nil for the last one.
        let end: Timestamp?
        let content: JSONValue
        let score: Double?
        let link: String?
    }

    let title: String
    let id: String
    let entries: [Entry]
    let policy: ReloadPolicy
    let curve: RelevanceCurve
    let now: Timestamp
    let clock: LocalClock
    /// Drawn part of time.
    let range: Range<Timestamp>

    /// - Parameters:
    ///   - title: name of the drawing for assistive technology.
    ///   - id: unique in the page; letters, digits and `-`.
    ///   - json: a stored timeline, with `entries` in the order of their dates and `policy`.
    ///   - link: link of entries that have none of their own.
    ///   - timeZone: an IANA name; times are in UTC if it is not known.
    package init(
        title: String, id: String, timeline json: [UInt8], link: String? = nil, now: Timestamp, timeZone: String
    ) throws(JSONError) {
        let timeline = try JSONValue.parse(json)
        var policyReader = JSONReader((timeline["policy"] ?? "never").encoded)
        policy = try policyReader.reloadPolicy()
        curve = try RelevanceCurve(timeline: json)
        let values = timeline["entries"]?.arrayValue ?? []
        let dates = values.map { $0["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } ?? .distantPast }
        entries = values.enumerated().map { index, value in
            Entry(
                date: dates[index], end: index + 1 < dates.count ? dates[index + 1] : nil,
                content: value["content"] ?? .null, score: value["relevance"]?["score"]?.numberValue?.double,
                link: value["url"]?.stringValue ?? link)
        }
        (self.title, self.id, self.now) = (title, id, now)
        clock = LocalClock(timeZone: timeZone) ?? .utc
        range = Self.range(dates: dates, policy: policy, now: now)
    }

    /// From the first entry to the time of the next reload, with some space after the last entry.
    private static func range(dates: [Timestamp], policy: ReloadPolicy, now: Timestamp) -> Range<Timestamp> {
        let last = dates.last ?? now
        let start = min(dates.first ?? now, now)
        var end = max(last, now)
        if let reload = policy.earliestReload(lastEntry: last) { end = max(end, reload) }
        let space = max((end - start) / 12, .seconds(600))
        return start..<(end + space)
    }

    // MARK: HTML

    /// The drawing with the entries, as an element `figure`. Everything from the timeline is escaped.
    package var html: HTML {
        let isLong = range.upperBound - range.lowerBound > .seconds(7_200)
        let step = isLong ? 60 : 1
        let seconds = Int((range.upperBound - range.lowerBound).wholeMicroseconds / 1_000_000)
        return """
            <figure class="time-axis" id="\(id)" data-time-axis data-from="\(Self.milliseconds(range.lowerBound))" \
            data-now="\(Self.milliseconds(now))" data-time-zone="\(clock.timeZone)">
            \(drawing.svg)
            \(drawing.legend { line in line.highest.map { "at most \(Self.number($0))" } })
            <div class="time-axis-choice" hidden><label for="\(id)-time">Shown at</label>\
            <input id="\(id)-time" type="range" min="0" max="\(seconds)" step="\(step)" value="0">\
            <output for="\(id)-time"></output></div>
            <p class="time-axis-before" hidden>No entry yet: a widget shows its snapshot or placeholder.</p>
            <ol class="time-axis-entries">
            \(HTML(entries.map(item)))</ol>
            <figcaption>\(caption)</figcaption>
            </figure>

            """
    }

    private var caption: HTML {
        let count = "\(entries.count) \(entries.count == 1 ? "entry" : "entries")"
        let reload =
            switch policy {
            case .atEnd: "the next reload is at the end"
            case .after(let date): "the next reload is after \(text(date))"
            case .never: "reloads only on request"
            }
        return "\(count); \(reload); times in \(clock.timeZone)"
    }

    private func item(_ entry: Entry) -> HTML {
        // Of entries with one date the last one is shown, so an end that equals the date hides the others.
        let isCurrent = entry.date <= now && entry.end.map { now < $0 } ?? true
        let current: HTML = isCurrent ? " aria-current=\"time\"" : ""
        let end: HTML = entry.end.map { " data-until=\"\(Self.milliseconds($0))\"" } ?? ""
        let score: HTML = entry.score.map { " <span class=\"score\">score \(Self.number($0))</span>" } ?? ""
        // Links of apps have schemes of their own, so they are text and not links.
        let link: HTML = entry.link.map { "<p class=\"link\">Opens <code>\($0)</code></p>" } ?? ""
        return """
            <li data-entry data-from="\(Self.milliseconds(entry.date))"\(end)\(current)>\
            <p class="when"><span class="date">\(text(entry.date))</span> \(HTML.time(entry.date, from: now, clock))\(score)</p>\
            \(Self.html(of: entry.content))\(link)</li>

            """
    }

    /// A local time of the axis, whose labels are local times, too; with the year where the axis is longer than one.
    private func text(_ time: Timestamp) -> String {
        isLongerThanYear ? "\(clock.date(time)) \(clock.clock(time))" : clock.text(time)
    }

    private var isLongerThanYear: Bool { range.upperBound - range.lowerBound > .seconds(366 * 86_400) }

    private static func milliseconds(_ time: Timestamp) -> HTML { HTML(stringLiteral: "\(time.microseconds / 1_000)") }

    private static func number(_ value: Double) -> String { JSONNumber(value)?.text ?? "0" }

    // MARK: Drawing

    /// Scores above the entries, with the present, the chosen time and the earliest reload by policy.
    var drawing: Chart {
        let steps = curve.steps(in: range)
        let top = steps.map(\.score).max() ?? 0
        let relevance = Chart.Series(
            "relevance", .steps, points: steps.map { (Self.seconds($0.from), $0.score > 0 ? $0.score : nil) })
        var chart = Chart(
            label: title, range: Self.seconds(range.lowerBound)..<Self.seconds(range.upperBound),
            scale: .linear(endingAt: top > 0 ? top : 1), series: [relevance])
        chart.height = 48
        chart.position = { text(Timestamp(microseconds: Int64(exactly: ($0 * 1_000_000).rounded()) ?? 0)) }
        chart.stripName = "one entry each"
        chart.strip = entries.map { Self.seconds($0.date)..<Self.seconds(max($0.end ?? range.upperBound, $0.date)) }
        chart.ticks = tickTimes.map { (Self.seconds($0.time), $0.text) }
        let reload = policy.earliestReload(lastEntry: entries.last?.date ?? now)
        chart.markers =
            (reload.map { [Chart.Marker(style: "reload", name: "earliest reload", x: Self.seconds($0))] } ?? []) + [
                Chart.Marker(style: "now", name: "now", x: Self.seconds(now)),
                Chart.Marker(style: "chosen", name: "shown at", x: Self.seconds(now)),
            ]
        return chart
    }

    private static func seconds(_ time: Timestamp) -> Double { Double(time.microseconds) / 1_000_000 }

    // MARK: Ticks

    private static let mostTicks: Int64 = 5
    /// Distances of ticks, in seconds.
    private static let distances: [Int64] = [
        60, 300, 600, 1_800, 3_600, 2 * 3_600, 3 * 3_600, 6 * 3_600, 12 * 3_600, 86_400, 2 * 86_400, 7 * 86_400,
    ]

    /// Round local times, away from the edges so that their texts fit.
    var tickTimes: [(time: Timestamp, text: String)] {
        let length = range.upperBound - range.lowerBound
        let seconds = length.wholeMicroseconds / 1_000_000
        let distance =
            Self.distances.first { seconds / $0 <= Self.mostTicks } ?? (seconds / Self.mostTicks / 86_400 + 1) * 86_400
        let offset = clock.offset(at: range.lowerBound).components.seconds
        let start = range.lowerBound.microseconds / 1_000_000 + offset
        let first = (start / distance + (start > 0 ? 1 : 0)) * distance - offset
        return (0...Self.mostTicks).compactMap { index in
            let time = Timestamp(microseconds: (first + index * distance) * 1_000_000)
            guard range.contains(time), (0.06...0.94).contains((time - range.lowerBound) / length) else { return nil }
            guard distance >= 86_400 else { return (time, clock.clock(time)) }
            return (time, isLongerThanYear ? String(clock.date(time).prefix(7)) : clock.day(time))
        }
    }

    // MARK: Content

    /// The content of an entry with its JSON: once, or for light and dark surroundings side by side if it has variants.
    ///
    /// Only the app knows the looks of its widgets, so the content is shown as a list of its members.
    private static func html(of content: JSONValue) -> HTML {
        func panel(_ value: JSONValue?, _ name: String) -> HTML {
            let body: HTML = value.map { list($0) } ?? "<p class=\"soft\">no \(name) variant</p>"
            return "<div class=\"side-\(name)\" role=\"group\" aria-label=\"\(name)\">\(body)</div>"
        }
        let panels: HTML =
            content.variants.map { "<div class=\"sides\">\(panel($0.light, "light"))\(panel($0.dark, "dark"))</div>" }
            ?? "<div class=\"sides one\">\(panel(content, "content"))</div>"
        return """
            \(panels)\
            <details><summary>JSON</summary><pre>\(String(decoding: content.encoded, as: UTF8.self))</pre></details>
            """
    }

    private static func list(_ value: JSONValue) -> HTML {
        switch value {
        case .null: "<span class=\"soft\">null</span>"
        case .bool(let value): value ? "true" : "false"
        case .number(let number): "\(number.text)"
        case .string(let text): "\(text)"
        case .array(let elements):
            elements.isEmpty
                ? "<span class=\"soft\">empty</span>" : "<ul>\(HTML(elements.map { "<li>\(list($0))</li>" }))</ul>"
        case .object(let object):
            object.isEmpty
                ? "<span class=\"soft\">empty</span>"
                : "<dl>\(HTML(object.members.map { "<div><dt>\($0.key)</dt><dd>\(list($0.value))</dd></div>" }))</dl>"
        }
    }
}
