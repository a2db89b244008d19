import WidgetModel

/// Content is complete in light and in dark surroundings.
enum AppearanceRules: LintRuleGroup {
    static let missing = LintRule(
        "appearance/missing", .warning, "Content with variants has a light and a dark one",
        advice: "Send both, or content without variants.")
    static let mixed = LintRule(
        "appearance/mixed", .warning, "All entries have variants, or none",
        advice: "Send light and dark variants in every entry of a timeline.")
    static let members = LintRule(
        "appearance/members", .note, "Light and dark variants have the same members",
        advice: "Add the missing members, unless one of the variants shows less on purpose.")

    static let rules = [missing, mixed, members]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        var incomplete: [String] = []
        var mixed: [String] = []
        var different: [String] = []
        for timeline in observation.timelines {
            let all = timeline.entries.map { ContentVariants($0.content) }
            let named = all.filter(\.areNamed)
            guard !named.isEmpty else { continue }
            if named.count < all.count {
                mixed.append("\(timeline.subject.name): \(named.count) of \(all.count) entries have variants")
            }
            if let one = named.first(where: { $0.light == nil || $0.dark == nil }) {
                incomplete.append("\(timeline.subject.name): no \(one.light == nil ? "light" : "dark") variant")
            } else if let names = named.lazy.compactMap(unequalMembers).first {
                different.append("\(timeline.subject.name): \(names) only in one variant")
            }
        }
        return observation.findings(at: [missing: incomplete, self.mixed: mixed, members: different])
    }

    private static func unequalMembers(_ variants: ContentVariants) -> String? {
        guard let light = variants.light?.objectValue, let dark = variants.dark?.objectValue else { return nil }
        let names = Set(light.keys).symmetricDifference(dark.keys).sorted()
        return names.isEmpty ? nil : names.prefix(3).map { Text.quoted($0) }.joined(separator: ", ")
    }
}
