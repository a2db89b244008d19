// SPDX-License-Identifier: Apache-2.0

import JSON

/// A kind with the values of one supported combination of its parameters: what a view counts for.
package struct HabitContent: Hashable, Sendable {
    package let key: HabitKey
    package let kind: String
    /// Values of the combination's parameters, and of no others.
    package let values: WidgetConfiguration

    package init(kind: String, values: WidgetConfiguration) {
        self.kind = kind
        self.values = values
        key = HabitKey(kind: kind, reduced: values)
    }

    /// The supported combinations that a donation counts for, and that a widget is matched by.
    ///
    /// A combination needs a value for each of its parameters. The whole configuration counts if the intent names no
    /// combinations, and the kind alone if it has no intent.
    ///
    /// - Parameter configuration: effective values (``IntentDefinition/resolve(_:family:)``).
    package static func contents(
        kind: String, configuration: WidgetConfiguration, intent: IntentDefinition?
    ) -> [HabitContent] {
        guard let intent else { return [HabitContent(kind: kind, values: .empty)] }
        guard !intent.supportedCombinations.isEmpty else { return [HabitContent(kind: kind, values: configuration)] }
        let values = configuration.value.objectValue ?? JSONObject()
        var contents: [HabitContent] = []
        for combination in intent.supportedCombinations {
            let members = combination.compactMap { name in
                values[name].flatMap { $0 == .null ? nil : (key: name, value: $0) }
            }
            guard members.count == combination.count else { continue }
            let content = HabitContent(kind: kind, values: WidgetConfiguration(checked: JSONObject(members)))
            if !contents.contains(where: { $0.key == content.key }) { contents.append(content) }
        }
        return contents
    }

    /// Number of parameters with a value: the greater, the less the content is left to defaults.
    var parameters: Int { values.value.objectValue?.count ?? 0 }
}

extension PersonRecord {
    /// Most contents that a person's record names. They bound the work of a plan.
    package static let maximumViewed = 8
    /// Longest values of a named content, in bytes.
    private static let maximumViewedBytes = 1_024

    /// Learns a view of contents.
    ///
    /// Naming a content (``remember(_:)``) takes the stored stacks, which a donation does not need otherwise. So a content
    /// is named when it recurs, and again now and then, in case stronger ones have displaced it: whenever its days in the
    /// half hour have doubled, or are a multiple of eight.
    ///
    /// - Returns: the contents to name; nil if the habits did not change.
    package mutating func learn(_ contents: [HabitContent], at halfHour: HalfHour) -> [HabitContent]? {
        guard habits.learn(contents.map(\.key), at: halfHour) else { return nil }
        return contents.filter { content in
            let days = habits.days(of: content.key, at: halfHour)
            return days > 1 && (days.nonzeroBitCount == 1 || days % 8 == 0)
        }
    }

    /// Names contents that the person has viewed, so that they can be suggested. Those without habits, and the weakest
    /// beyond ``maximumViewed``, are left out.
    ///
    /// - Returns: whether the named contents changed.
    package mutating func remember(_ contents: [HabitContent]) -> Bool {
        let before = viewed
        viewed += contents.filter { content in
            content.values.canonical.utf8.count <= Self.maximumViewedBytes
                && !viewed.contains { $0.key == content.key }
        }
        guard viewed != before else { return false }
        let weighted = viewed.map { (content: $0, weight: habits.weight(of: $0.key)) }.filter { $0.weight > 0 }
        let kept = weighted.sorted { ($0.weight, $1.content.key) > ($1.weight, $0.content.key) }.prefix(
            Self.maximumViewed)
        viewed = kept.map(\.content).sorted { $0.key < $1.key }
        return viewed != before
    }
}

extension HabitContent {
    /// `{"kind", "values"?}`.
    var stored: JSONValue {
        var object: JSONObject = ["kind": .string(kind)]
        if values != .empty { object["values"] = .string(values.canonical) }
        return .object(object)
    }

    init?(stored value: JSONValue) {
        guard let kind = value["kind"]?.stringValue else { return nil }
        self.init(
            kind: kind,
            values: value["values"]?.stringValue.map { WidgetConfiguration(storedCanonical: $0) } ?? .empty)
    }
}
