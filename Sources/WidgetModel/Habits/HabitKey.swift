import JSON

/// A kind with the parameter values of one supported combination, as a stable hash.
///
/// Keys are stored, so the hashed form never changes under the same tag.
package struct HabitKey: Hashable, Comparable, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    package static func < (left: HabitKey, right: HabitKey) -> Bool { left.rawValue < right.rawValue }

    /// Keys that a donation counts for, and that a widget is matched by.
    ///
    /// A combination needs a value for each of its parameters. The whole configuration counts if the intent names no
    /// combinations, and the kind alone if it has no intent.
    ///
    /// - Parameter configuration: effective values (``IntentDefinition/resolve(_:family:)``).
    package static func keys(
        kind: String, configuration: WidgetConfiguration, intent: IntentDefinition?
    ) -> [HabitKey] {
        guard let intent else { return [HabitKey(kind: kind, reduced: .empty)] }
        guard !intent.supportedCombinations.isEmpty else { return [HabitKey(kind: kind, reduced: configuration)] }
        let values = configuration.value.objectValue ?? JSONObject()
        var keys: [HabitKey] = []
        for combination in intent.supportedCombinations {
            let members = combination.compactMap { name in
                values[name].flatMap { $0 == .null ? nil : JSONObject.Member(key: name, value: $0) }
            }
            guard members.count == combination.count else { continue }
            let key = HabitKey(kind: kind, reduced: WidgetConfiguration(checked: JSONObject(members)))
            if !keys.contains(key) { keys.append(key) }
        }
        return keys
    }

    private init(kind: String, reduced: WidgetConfiguration) {
        // The kind ends with a byte that UTF-8 does not use, so that the form is unambiguous.
        let form = Array("freshet.habit.v1\(kind)".utf8) + [0xFF] + Array(reduced.canonical.utf8)
        rawValue = ContentHash(of: form).high
    }
}
