import WidgetModel

/// Taps open something of the app.
enum LinkRules: LintRuleGroup {
    static let none = LintRule(
        "links/none", .note, "Entries or the kind have a link",
        advice: "Set widgetURL in the manifest or url in the entries: a tap opens the app's start page otherwise.")
    static let several = LintRule(
        "links/several", .warning, "Small widgets have one link",
        advice: "Leave links out for systemSmall, which has one place to tap, or use url.")
    static let relative = LintRule(
        "links/relative", .warning, "Links are absolute URLs",
        advice: "Begin with a scheme, such as bank:// or https://.")
    static let unsafe = LintRule(
        "links/unsafe", .error, "Links run no scripts",
        advice:
            "Use the app's own scheme or https: javascript and data URLs run code where content is shown in browsers.")

    static let rules = [none, several, relative, unsafe]

    private static let unsafeSchemes = ["javascript:", "data:", "vbscript:"]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let timelines = observation.timelines
        let urls = timelines.flatMap { timeline in
            timeline.entries.flatMap { [$0.url].compactMap(\.self) + $0.links }.map { (timeline.subject.name, $0) }
        }
        func places(_ isWrong: (String) -> Bool) -> [String] {
            urls.filter { isWrong($0.1) }.map { "\($0.0): \(Text.quoted($0.1))" }
        }
        func isUnsafe(_ url: String) -> Bool {
            unsafeSchemes.contains { url.lowercased().drop { $0.isWhitespace }.hasPrefix($0) }
        }
        let hasNone = urls.isEmpty && !timelines.isEmpty && observation.kind.definition.widgetURL == nil
        return observation.findings(at: [
            unsafe: places(isUnsafe),
            relative: places { !isUnsafe($0) && !IntentParameter.hasScheme($0) },
            several: timelines.filter { $0.parsed.lints.contains(.severalLinks) }.map {
                "\($0.subject.name): an entry with several links"
            },
            none: hasNone ? ["no entry has a url, and the kind has no widgetURL"] : [],
        ])
    }
}
