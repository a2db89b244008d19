// SPDX-License-Identifier: Apache-2.0

import JSON

/// Translations of an intent's display texts, as a manifest has them: by locale, and by the text or, for a text that
/// equals another one with other translations, by its string's identifier.
struct IntentTranslations {
    /// By locale and identifier.
    private let strings: [String: [String: String]]
    private(set) var tables: [String: [String: String]] = [:]
    /// Translations by locale that are found by a text itself, by the text.
    private var common: [String: [String: String]] = [:]

    init(_ strings: [String: [String: String]]) { self.strings = strings }

    var json: JSONValue {
        .object(
            JSONObject(
                unique: tables.map { locale, table in
                    (locale, .object(JSONObject(unique: table.map { ($0.key, .string($0.value)) })))
                }))
    }

    func translations(of id: String) -> [String: String] {
        strings.compactMapValues { $0[id] }.filter { !$0.value.isEmpty }
    }

    /// Adds the translations of a text.
    ///
    /// - Parameter id: the text's identifier; nil for a text without translations.
    /// - Returns: whether they are found by the text itself: it is the first of its equals, or all have the same.
    mutating func add(_ text: String, id: String?) -> Bool {
        let translations = id.map { self.translations(of: $0) } ?? [:]
        let isCommon = common[text].map { $0 == translations } ?? true
        if isCommon { common[text] = translations }
        guard let key = isCommon ? text : id else { return false }
        for (locale, translation) in translations { tables[locale, default: [:]][key] = translation }
        return isCommon
    }
}
