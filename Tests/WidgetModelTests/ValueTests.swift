// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.timeLimit(.patience))
struct ValueTests {
    @Test func timelineIDOrderIsByteOrder() {
        var random = SeededGenerator(seed: 7)
        var ids = (0..<500).map { _ in TimelineID(high: random.next(), low: random.next()) }
        ids += ids.map { TimelineID(high: $0.high, low: $0.low &+ 1) }
        ids += [TimelineID(high: 0, low: .max), TimelineID(high: .max, low: 0)]
        let byID = ids.sorted().map(\.description)
        #expect(byID == byID.sorted(by: Text.precedes))
        for id in ids { #expect(TimelineID(id.description) == id) }
    }

    @Test func timelineIDText() {
        let id = TimelineID(high: 0x0123_4567_89ab_cdef, low: 0xfedc_ba98_7654_3210)
        #expect(id.description == "01234567-89ab-cdef-fedc-ba9876543210")
        #expect(TimelineID("01234567-89AB-CDEF-FEDC-BA9876543210") == id)
        for text in [
            "", "01234567-89ab-cdef-fedc-ba987654321", "01234567-89ab-cdef-fedc-ba98765432100",
            "0123456789abcdeffedcba9876543210", "01234567-89ab-cdef-fedc-ba987654321g",
            "01234567-89ab-cdeffedc--ba9876543210",
            "{1234567-89ab-cdef-fedc-ba9876543210",
        ] {
            #expect(TimelineID(text) == nil, "\(text)")
        }
    }

    @Test("Only hexadecimal digits are read, at every place of a timeline's id")
    func timelineIDDigits() {
        let text = Array("01234567-89ab-cdef-fedc-ba9876543210".utf8)
        for index in text.indices where text[index] != UInt8(ascii: "-") {
            for byte in UInt8.min...UInt8.max {
                var changed = text
                changed[index] = byte
                let isDigit = byte < 0x80 && Character(Unicode.Scalar(byte)).isHexDigit
                let id = TimelineID(bytes: changed[...])
                #expect((id != nil) == isDigit, "byte \(byte) at \(index)")
                #expect(id.map { $0.description == String(decoding: changed, as: UTF8.self).lowercased() } != false)
            }
        }
    }

    @Test func contentHash() {
        // FIPS 180: SHA-256 of the empty string and of "abc".
        #expect(ContentHash(of: []).description == "e3b0c442-98fc-1c14-9afb-f4c8996fb924")
        #expect(ContentHash(of: bytes("abc")).description == "ba7816bf-8f01-cfea-4141-40de5dae2223")
    }

    @Test("Numbers and names that databases store stay as they are")
    func storedNumbers() {
        // A change requires a migration.
        #expect(
            WidgetFamily.allCases.map(\.rawValue) == Array(0...6)
                && WidgetFamily.allCases.map(\.name) == [
                    "systemSmall", "systemMedium", "systemLarge", "systemExtraLarge", "accessoryCircular",
                    "accessoryRectangular", "accessoryInline",
                ])
        #expect(
            ReloadReason.allCases.map { "\($0.rawValue) \($0.name)" } == [
                "0 placed", "1 configured", "2 environment", "3 foreground", "4 operator", "5 push", "6 background",
                "7 policy",
            ])
        #expect(
            ReloadLane.allCases.map { "\($0.rawValue) \($0.name)" } == [
                "0 interactive", "1 push", "2 scheduled", "3 bulk",
            ])
        #expect(KindSharing.allCases.map { "\($0.rawValue) \($0.name)" } == ["0 perUser", "1 shared"])
        #expect(KindVariation.all.rawValue == 7)
    }

    @Test("Values are found by their exact names")
    func names() {
        for family in WidgetFamily.allCases { #expect(WidgetFamily(name: family.name) == family) }
        for reason in ReloadReason.allCases { #expect(ReloadReason(name: reason.name) == reason) }
        for sharing in KindSharing.allCases { #expect(KindSharing(name: sharing.name) == sharing) }
        #expect(WidgetFamily(name: "SystemSmall") == nil)
        #expect(ReloadReason(name: "") == nil)
        #expect(KindSharing(name: "public") == nil)
    }

    @Test func freeReasonsGoFirst() {
        #expect(
            ReloadReason.allCases.filter { $0.urgency > .budgeted } == [
                .placed, .configured, .environment, .foreground, .operator,
            ])
        #expect(
            ReloadReason.allCases.filter { $0.lane == .interactive }
                == ReloadReason.allCases.filter { $0.urgency > .budgeted })
        #expect(ReloadReason.push.lane == .push)
        #expect(ReloadReason.background.lane == .push)
        #expect(ReloadReason.policy.lane == .scheduled)
        #expect(ReloadLane.allCases.sorted() == ReloadLane.allCases)
    }

    @Test(arguments: [
        ("en-US", "Europe/Berlin", "en-US"), ("en_US", "UTC", "en-US"),
        ("zh-Hant-TW", "America/Argentina/Buenos_Aires", "zh-Hant-TW"),
        ("de", "Etc/GMT+5", "de"), ("sl-rozaj-1994", "GMT", "sl-rozaj-1994"),
        ("en-u-ca-gregory", "EST5EDT", "en-u-ca-gregory"),
    ])
    func environments(locale: String, timeZone: String, stored: String) throws {
        let environment = try WidgetEnvironment(locale: locale, timeZone: timeZone)
        #expect(environment.locale == stored)
        #expect(environment.timeZone == timeZone)
    }

    @Test(
        "Keywords of a locale as iOS reports it become the extension u, or are left out",
        arguments: [
            ("en_US@calendar=japanese", "en-US-u-ca-japanese"), ("de_DE@rg=chzzzz", "de-DE-u-rg-chzzzz"),
            ("zh-Hans_CN@rg=uszzzz;calendar=gregorian", "zh-Hans-CN-u-ca-gregory-rg-uszzzz"),
            ("de_DE@collation=phonebook;numbers=arab;x=y", "de-DE-u-co-phonebk-nu-arab"),
            ("en_GB@timezone=Europe/London", "en-GB"), ("en_US@", "en-US"), ("en@calendar", "en"),
            ("en-u-nu-latn@calendar=japanese", "en-u-nu-latn"), ("en_US_POSIX", "en-US-POSIX"),
            (
                "en_US@mu=celsius;fw=mon;ca=\(String(repeating: "abcdefgh-", count: 6))abc;hours=h23",
                "en-US-u-fw-mon-hc-h23-mu-celsius"
            ),
        ])
    func reportedLocales(identifier: String, tag: String) throws {
        #expect(try WidgetEnvironment(locale: identifier, timeZone: "UTC").locale == tag)
    }

    @Test(
        "An offset becomes a zone with this offset",
        arguments: [
            ("GMT+0530", "Asia/Kolkata"), ("+05:30", "Asia/Kolkata"), ("GMT-0330", "America/St_Johns"),
            ("GMT+0200", "Etc/GMT-2"), ("-08:00", "Etc/GMT+8"), ("UTC+5", "Etc/GMT-5"), ("GMT+14", "Etc/GMT-14"),
            ("GMT+0000", "UTC"), ("-0000", "UTC"), ("GMT+0", "GMT+0"), ("GMT+1245", "Pacific/Chatham"),
        ])
    func offsets(offset: String, zone: String) throws {
        #expect(try WidgetEnvironment(locale: "en", timeZone: offset).timeZone == zone)
    }

    @Test("Values that cannot be used are a problem for kinds that vary by them")
    func unusable() {
        let environment = WidgetEnvironment(reportedLocale: "?", timeZone: "Europe/Atlantis")
        #expect(environment == WidgetEnvironment(storedLocale: "und", timeZone: "UTC"))
        #expect(environment.problems.map(\.pointer) == ["/locale", "/timeZone"])
        #expect(environment.problems(for: .family).isEmpty)
        #expect(environment.problems(for: [.family, .timeZone]).map(\.pointer) == ["/timeZone"])
        #expect(environment.problems(for: .all).map(\.pointer) == ["/locale", "/timeZone"])
    }

    @Test(arguments: [
        "", "e", "-", "en-", "-en", "en--US", "toolongtag", "en-toolongtag", "12", "en US", "en/US", "énglish",
        "en\u{0}",
        "en" + String(repeating: "-abcdefgh", count: 7),
    ])
    func badLocales(locale: String) {
        #expect {
            try WidgetEnvironment(locale: locale, timeZone: "UTC")
        } throws: {
            ($0 as? ModelError)?.pointer == "/locale"
        }
    }

    @Test(arguments: [
        "", "/", "Europe/", "/Berlin", "Europe//Berlin", "Europe/Ber lin", "..", "../etc/passwd", "+01:20", "+15:00",
        "+1:0", "GMT+", "GMT+12345", "+:30", "1/2",
        "Europe", "Europe/Atlantis", "europe/berlin", "posix/Europe/Berlin", "leapseconds", "Berlin",
        String(repeating: "a", count: 65),
    ])
    func badTimeZones(timeZone: String) {
        #expect {
            try WidgetEnvironment(locale: "en", timeZone: timeZone)
        } throws: {
            ($0 as? ModelError)?.pointer == "/timeZone"
        }
    }

    @Test(arguments: [
        "UTC", "GMT", "Etc/GMT+5", "EST5EDT", "Europe/Berlin", "America/Argentina/ComodRivadavia", "Asia/Calcutta",
        "America/Port-au-Prince", "US/Pacific", "Zulu",
    ])
    func timeZones(timeZone: String) throws {
        #expect(try WidgetEnvironment(locale: "en", timeZone: timeZone).timeZone == timeZone)
    }

    @Test func identifiers() {
        for text in ["a", "u42", "com.example.bank", "é😀", "a b", String(repeating: "x", count: 256)] {
            #expect(Text.identifierProblem(text) == nil)
        }
        for text in ["", "a\nb", "\u{0}", "\u{7F}", "\u{85}", "\u{9F}", String(repeating: "x", count: 257)] {
            #expect(Text.identifierProblem(text) != nil, "\(text.debugDescription)")
        }
        #expect(Text.identifierProblem("\u{A0}") == nil)
    }

    @Test("Text is quoted or put on one line with escapes, up to a maximum")
    func quotedText() {
        #expect(Text.quoted("a\"\\\n\u{0}é") == #""a\"\\\u{a}\u{0}é""#)
        #expect(Text.quoted(String(repeating: "x", count: 100)).count == 67)
        #expect(Text.quoted(String(repeating: "x", count: 100), maximum: .max).count == 102)
        #expect(Text.quoted("a\u{2028}\u{202E}b") == #""a\u{2028}\u{202e}b""#)
        #expect(Text.oneLine("a \"b\"\r\nc\u{85}") == #"a "b"\u{d}\u{a}c\u{85}"#)
        #expect(Text.printable("a\nb\u{85}cd", maximum: 5) == "a b c")
    }

    @Test func stringsAreComparedByBytes() {
        let composed = "\u{E9}"
        let decomposed = "e\u{301}"
        #expect(composed == decomposed, "Swift considers them equal")
        #expect(!Text.equal(composed, decomposed))
        #expect(KindScope(names: [composed, decomposed, composed]) == .kinds([decomposed, composed]))
        #expect(Text.precedes("Z", "a") && Text.precedes("z", "é") && !Text.precedes("a", "a"))
        #expect(Text.equal(nil, nil) && !Text.equal(nil, "") && Text.equal("a" as String?, "a"))
    }

    @Test func kindScopes() {
        #expect(KindScope(names: []) == nil)
        #expect(KindScope(names: ["b", "a", "b"]) == .kinds(["a", "b"]))
    }

    @Test("Random ids are 32 lowercase hexadecimal digits, of which none is fixed")
    func randomIDs() {
        let ids = (0..<200).map { _ in String.randomID() }
        #expect(ids.allSatisfy { $0.utf8.count == 32 && $0.allSatisfy { "0123456789abcdef".contains($0) } })
        let digits = ids.map { Array($0) }
        #expect((0..<32).allSatisfy { place in Set(digits.map { $0[place] }).count > 8 })
    }
}
