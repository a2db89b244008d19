// SPDX-License-Identifier: Apache-2.0

import JSON
import Testing

@testable import WidgetAPI

@Suite("Texts of the configuration form", .tags(.api))
struct FormTextTests {
    @Test(
        "Every language has every text, with the names of the English one",
        arguments: FormText.translations.keys.sorted())
    func complete(_ language: String) throws {
        let texts = try #require(FormText.translations[language])
        func names(_ text: String) -> [String] { text.matches(of: /\{[a-z]+\}/).map { String($0.0) }.sorted() }
        for text in FormText.allCases {
            let translation = try #require(texts[text], "\(language): \(text)")
            #expect(names(translation) == names(text.rawValue), "\(language): \(text)")
        }
    }

    @Test("A text is that of the locale's language, or English")
    func language() {
        #expect(FormText.done(in: "de_AT") == "Fertig" && FormText.done(in: "zh-Hant-TW") == "完成")
        #expect(FormText.done(in: "xx") == "Done" && FormText.addTo(in: "fr", label: "Villes") == "Ajouter à Villes")
        #expect(FormText.json(in: "de")["saved"] == "Gesichert")
    }
}
