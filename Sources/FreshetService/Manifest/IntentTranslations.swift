// SPDX-License-Identifier: Apache-2.0

import JSON

/// Translations of an intent's display texts, as a manifest has them: by locale, and by the text or, for a text that
/// equals another one with other translations, by its string's identifier.
struct IntentTranslations {
    /// By locale and identifier.
    private let strings: [String: [String: String]]
    private(set) var tables: [String: [String: String]] = [:]

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
    /// - Returns: whether they are found by the text itself, since no equal text has another translation.
    mutating func add(_ text: String, id: String) -> Bool {
        let translations = translations(of: id)
        let isCommon = translations.allSatisfy { locale, translation in
            tables[locale]?[text].map { Text.equal($0, translation) } ?? true
        }
        for (locale, translation) in translations { tables[locale, default: [:]][isCommon ? text : id] = translation }
        return isCommon
    }
}
