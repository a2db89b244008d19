// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// Times on pages: relative to the present, with the exact time as the title. `console.js` keeps them so.
extension HTML {
    /// `<time datetime="…" title="2026-06-22 14:05:03 UTC">5 min ago</time>`
    static func time(_ time: Timestamp, from now: Timestamp, _ clock: LocalClock = .utc) -> HTML {
        """
        <time datetime="\(time.rfc3339)" title="\(clock.full(time))" data-relative>\
        \(time.distance(from: now))</time>
        """
    }

    /// Text with each of its times in RFC 3339 as an element `time`. Sentences have them alone, or as
    /// `at 2026-06-22T14:05:03Z (5 min 3 s ago)`.
    static func times(in text: String, from now: Timestamp) -> HTML {
        let pattern = /(?:at )?(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)(?: \((?:in [a-z0-9. ]+|[a-z0-9. ]+ ago)\))?/
            .asciiOnlyDigits()
        var html: HTML = ""
        var end = text.startIndex
        for match in text.matches(of: pattern) {
            guard let time = Timestamp(rfc3339: String(match.1)) else { continue }
            html += "\(String(text[end..<match.range.lowerBound]))\(HTML.time(time, from: now))"
            end = match.range.upperBound
        }
        html += "\(String(text[end...]))"
        return html
    }
}

extension Timestamp {
    /// `5 min ago`, `3 h from now`, or `now`, in the largest unit of which there are at least two.
    ///
    /// `console.js` has the same rule.
    func distance(from now: Timestamp) -> String {
        let seconds = (self - now).components.seconds
        let (count, unit): (Int64, String) =
            switch seconds.magnitude {
            case 0: (0, "")
            case ..<120: (seconds, "s")
            case ..<7_200: (seconds / 60, "min")
            case ..<172_800: (seconds / 3_600, "h")
            case ..<63_072_000: (seconds / 86_400, "d")
            default: (seconds / 31_536_000, "years")
            }
        return count == 0 ? "now" : "\(count.magnitude) \(unit) \(count < 0 ? "ago" : "from now")"
    }
}
