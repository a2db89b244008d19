import WidgetModel

/// Content is far from its limits, and each entry changes something.
enum ContentRules: LintRuleGroup {
    static let large = LintRule(
        "content/large", .warning, "Timelines use less than half of the allowed size",
        advice: "Leave out what widgets do not show, and refer to images by their URLs. Larger timelines are refused.")
    static let repeated = LintRule(
        "content/repeated", .warning, "Entries differ from the ones before them",
        advice: "Send an entry only where something changes: an entry is shown until the next one.")

    static let rules = [large, repeated]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let limits = ProviderLimits()
        let large = observation.timelines.compactMap { timeline -> String? in
            let (bytes, count) = (timeline.parsed.content.count, timeline.parsed.entryCount)
            guard bytes > limits.maximumContentBytes / 2 || count > limits.maximumEntries / 2 else { return nil }
            return """
                \(timeline.subject.name): \(bytes) of \(limits.maximumContentBytes) bytes, \(count) of \
                \(limits.maximumEntries) entries
                """
        }
        let repeated = observation.timelines.compactMap { timeline -> String? in
            let pairs = zip(timeline.entries, timeline.entries.dropFirst())
            let count = pairs.count { $0.rest == $1.rest }
            // A few repetitions may be chance.
            guard count >= 2, count * 2 >= timeline.entries.count - 1 else { return nil }
            return "\(timeline.subject.name): \(count) of \(timeline.entries.count) entries repeat the one before"
        }
        return observation.findings(at: [self.large: large, self.repeated: repeated])
    }
}
