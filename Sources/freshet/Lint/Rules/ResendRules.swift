import WidgetModel

/// The same question gets an equivalent answer, so that unchanged content is neither stored nor published.
enum ResendRules: LintRuleGroup {
    static let changing = LintRule(
        "resend/changing", .warning, "The same request gets the same content a second later",
        advice: "List members that nobody sees in the kind's volatileFields; everything else counts as a change.")
    static let dates = LintRule(
        "resend/dates", .warning, "The dates of unchanged content stay",
        advice: """
            Date entries by their content and not by the request: a changed date of a later entry, or of one with \
            relevance, is published as a change.
            """)

    static let rules = [changing, dates]

    static func findings(in observation: LintObservation) -> [LintFinding] {
        let rounds = observation.rounds.map { round in
            Dictionary(LintObservation.timelines(of: round).map { ($0.subject, $0) }) { first, _ in first }
        }
        guard rounds.count >= 2, let last = rounds.last else { return [] }
        var changed: [String] = []
        var moved: [String] = []
        let now = WallClock.now()
        let volatile = observation.kind.definition.volatilePointers
        for (subject, timeline) in last.sorted(by: { $0.key.name < $1.key.name }) {
            // A single change may be a real one: every round must differ.
            let history = rounds.compactMap { $0[subject] }
            guard history.count == rounds.count,
                zip(history, history.dropFirst())
                    .allSatisfy({ !$1.parsed.showsTheSame(as: $0.parsed.hash(at: now), at: now) })
            else { continue }
            let before = history[history.count - 2]
            let places = difference(before, timeline).filter { place in
                let tokens = JSONPointer(place)?.tokens ?? []
                let isOfContent = tokens.count >= 3 && Text.equal(tokens[2], "content")
                return !(isOfContent && volatile.contains { $0.covers(tokens.dropFirst(3)) })
            }
            if places.isEmpty {
                moved.append(
                    "\(subject.name): \(before.parsed.firstEntryDate) became \(timeline.parsed.firstEntryDate)")
            } else {
                changed.append("\(subject.name): \(places.prefix(3).joined(separator: ", "))")
            }
        }
        return observation.findings(at: [changing: changed, dates: moved])
    }

    /// JSON pointers to members of entries that differ, without dates.
    private static func difference(_ left: LintTimeline, _ right: LintTimeline) -> [String] {
        guard left.entries.count == right.entries.count else {
            return ["\(left.entries.count) entries became \(right.entries.count)"]
        }
        return left.entries.indices.flatMap { index in
            difference(left.entries[index].rest, right.entries[index].rest, at: "/entries/\(index)")
        }
    }

    private static func difference(_ left: JSONValue, _ right: JSONValue, at pointer: String) -> [String] {
        switch (left, right) {
        case _ where left == right: []
        case (.object(let left), .object(let right)):
            Set(left.keys).union(right.keys).sorted().flatMap { key in
                difference(
                    left[key] ?? .null, right[key] ?? .null,
                    at: pointer + JSONPointer(tokens: [key]).text)
            }
        case (.array(let left), .array(let right)) where left.count == right.count:
            zip(left, right).enumerated().flatMap { difference($1.0, $1.1, at: "\(pointer)/\($0)") }
        default: [pointer]
        }
    }
}
