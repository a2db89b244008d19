// SPDX-License-Identifier: Apache-2.0

import JSON
import ReloadWorkers
import WidgetModel

@testable import ProviderTools

extension LintExample {
    static let all = protocolExamples + scheduleExamples + contentExamples + environmentExamples + configurationExamples

    private static let plain = content("1")

    private static func timing(_ endpoint: ProviderEndpoint, _ failure: ProviderFailure?) -> TrialAnswer<[UInt8]> {
        TrialAnswer<[UInt8]>(request: TrialRequest(endpoint, limit: .seconds(2), failure: failure))
    }

    static func attempt(
        _ manner: LintManner, _ endpoint: ProviderEndpoint = .timelines, failure: ProviderFailure? = nil
    ) -> LintAttempt {
        (manner, TrialRequest(endpoint, failure: failure))
    }

    private static func trial(_ manner: LintManner, status: Int?) -> LintObservation {
        of(plain) {
            $0.attempts = [
                attempt(
                    manner, failure: status.map { ProviderFailure(.status, "answered with status \($0)", status: $0) })
            ]
        }
    }

    private static func took(_ seconds: Double, failure: ProviderFailure? = nil) -> LintObservation {
        of(plain) {
            $0.rounds[0][0].request.duration = .seconds(seconds)
            $0.rounds[0][0].request.failure = failure
        }
    }

    private static var protocolExamples: [LintExample] {
        let missing = of([(subject(), plain), (subject(user: "u2"), "{\"policy\":\"never\",\"entries\":[]}")])
        let foreign = of(plain) { $0.rounds[0][0].foreign = ["0b0e4f9a-52a1-43c6-9c6e-0e2b6f7f1a11"] }
        let absent = of(plain) {
            $0.placeholders = [timing(.placeholder, ProviderFailure(.status, "status 404", status: 404))]
        }
        let broken = of(plain) {
            $0.placeholders = [timing(.placeholder, ProviderFailure(.status, "status 500", status: 500))]
        }
        let error = of("{\"error\":{\"code\":\"unknown\",\"message\":\"no such user\"}}")
        return [
            LintExample(.contractAnswer, bad: broken, good: absent),
            LintExample(.contractElement, bad: missing, good: error),
            LintExample(.contractError, bad: error, good: of(plain)),
            LintExample(.contractForeign, bad: foreign, good: of(plain)),
            LintExample(
                .contractUnknownMembers, bad: trial(.unknownMembers, status: 400),
                good: trial(.unknownMembers, status: nil)),
            LintExample(
                .signatureWrong, bad: trial(.wrongSecret, status: nil), good: trial(.wrongSecret, status: 401)),
            LintExample(
                .signatureMissing, bad: trial(.noSignature, status: nil), good: trial(.noSignature, status: 401)),
            LintExample(
                .signatureOld, bad: trial(.oldTimestamp, status: nil), good: trial(.oldTimestamp, status: 401)),
            LintExample(
                .signatureBody, bad: trial(.changedBody, status: nil), good: trial(.changedBody, status: 403)),
            LintExample(
                .signatureRotation, bad: trial(.twoSignatures, status: 401),
                good: trial(.twoSignatures, status: nil)),
            LintExample(
                .signatureStatus, bad: trial(.wrongSecret, status: 500), good: trial(.wrongSecret, status: 401)),
            LintExample(.latencySlow, bad: took(5.1), good: took(4.9)),
            LintExample(.latencyLate, bad: took(10, failure: ProviderFailure(.timeout, "late")), good: took(9)),
        ]
    }

    private static var scheduleExamples: [LintExample] {
        let entries = ["\"content\":1", "\"content\":2"]
        func rounds(_ dates: [String], _ later: [String]) -> LintObservation {
            func round(_ dates: [String]) -> [TrialAnswer<ParsedTimeline>] {
                [answer(dates.enumerated().map { (subject(user: "u\($0)"), after($1)) })]
            }
            return of(plain) { $0.rounds = [round(dates), round(later)] }
        }
        let tomorrow = "2026-06-23T06:30:00Z"
        return [
            LintExample(
                .scheduleShortGap, bad: of(timeline(entries, minutes: 4)), good: of(timeline(entries, minutes: 5))),
            LintExample(
                .scheduleSingleAtEnd, bad: of(timeline(["\"content\":1"], policy: "\"atEnd\"")),
                good: of(timeline(entries, policy: "\"atEnd\""))),
            LintExample(
                .scheduleRoundHour, bad: of(after("2026-06-23T00:00:00Z")), good: of(after("2026-06-23T00:07:13Z"))
            ),
            // Midnight in Kolkata is no full hour of UTC.
            LintExample(
                .scheduleRoundHour,
                bad: of(after("2026-06-22T18:30:00Z"), subject: subject(timeZone: "Asia/Kolkata")),
                good: of(after("2026-06-22T18:30:00Z"))),
            LintExample(
                .scheduleSameTime,
                bad: rounds(["2026-06-23T06:30:00Z", tomorrow, tomorrow], [tomorrow, tomorrow, tomorrow]),
                // A time relative to the request moves with it.
                good: rounds([tomorrow, tomorrow, tomorrow], Array(repeating: "2026-06-23T06:30:01Z", count: 3))),
            LintExample(
                .schedulePast, bad: of(after("2026-06-22T10:07:30Z")), good: of(after("2026-06-22T10:37:30Z"))),
            // The second and last entry is in the past, so that atEnd requests a reload at once.
            LintExample(
                .schedulePast, bad: of(timeline(entries, policy: "\"atEnd\"", minutes: -5)),
                good: of(timeline(entries, policy: "\"atEnd\"", minutes: 60))),
            LintExample(
                .scheduleNoneYet,
                bad: of("{\"policy\":\"never\",\"entries\":[{\"date\":\"2026-06-22T11:00:00Z\",\"content\":1}]}"),
                good: of(plain)),
        ]
    }

    private static var contentExamples: [LintExample] {
        func scores(_ values: Double...) -> LintObservation {
            of(timeline(values.map { "\"content\":\($0),\"relevance\":{\"score\":\($0)}" }))
        }
        func text(_ count: Int) -> String { content("\"\(String(repeating: "x", count: count))\"") }
        let small = kind { $0.families = [.systemSmall] }
        let lock = kind { $0.families = [.accessoryRectangular] }
        let links = "\"content\":1,\"links\":{\"a\":\"app://a\",\"b\":\"app://b\"}"
        func link(_ url: String) -> LintObservation { of(timeline(["\"content\":1,\"url\":\"\(url)\""])) }
        return [
            LintExample(.contentLarge, bad: of(text(140_000)), good: of(text(130_000))),
            LintExample(
                .contentRepeated, bad: of(timeline(Array(repeating: "\"content\":1", count: 3))),
                good: of(timeline(["\"content\":1", "\"content\":2", "\"content\":2", "\"content\":3"]))),
            LintExample(.relevanceConstant, bad: scores(1, 1, 1, 1, 1), good: scores(1, 1, 1, 1, 2)),
            // Storms in three of six hours, of which only the first is before the reload.
            LintExample(.relevanceConstant, bad: scores(1, 1, 1, 1, 1), good: storms),
            LintExample(.relevanceNever, bad: scores(0, 0, -1, 0, 0), good: scores(0, 0, 0, 0, 1)),
            LintExample(.linksNone, bad: of(plain), good: of(plain, kind: kind { $0.widgetURL = "app:///" })),
            LintExample(
                .linksSeveral,
                bad: of(timeline([links]), subject: subject(small, family: .systemSmall), kind: small),
                good: of(timeline([links]))),
            LintExample(
                .linksSeveral,
                bad: of(timeline([links]), subject: subject(lock, family: .accessoryRectangular), kind: lock),
                good: of(timeline([links]))),
            LintExample(.linksRelative, bad: link("cards/acme"), good: link("bank:///cards/acme")),
            LintExample(.linksUnsafe, bad: link(" JavaScript:alert(1)"), good: link("https://example.com")),
            LintExample(
                .appearanceMissing, bad: of(content("{\"light\":1}")),
                good: of(content("{\"light\":1,\"dark\":2}"))),
            LintExample(
                .appearanceMixed, bad: of(timeline(["\"content\":{\"light\":1,\"dark\":2}", "\"content\":1"])),
                good: of(timeline(["\"content\":3", "\"content\":1"]))),
            LintExample(
                .appearanceMembers, bad: of(content("{\"light\":{\"a\":1},\"dark\":{\"b\":1}}")),
                good: of(content("{\"light\":{\"a\":1},\"dark\":{\"a\":2}}"))),
        ]
    }

    private static var storms: LintObservation {
        let entries = (0..<6).map { hour -> JSONValue in
            let entry: JSONValue = ["date": .string((now + .seconds(hour * 3_600)).rfc3339), "content": .count(hour)]
            return hour.isMultiple(of: 2) ? entry.adding("relevance", ["score": 1, "duration": 3_600]) : entry
        }
        let timeline: JSONValue = [
            "policy": ["after": .string((now + .seconds(3_600)).rfc3339)], "entries": .array(entries),
        ]
        return of(timeline.canonical)
    }

    private static var environmentExamples: [LintExample] {
        func pair(_ one: TrialSubject, _ other: TrialSubject, _ kind: TrialKind, isSame: Bool) -> LintObservation {
            of([(one, content("1")), (other, content(isSame ? "1" : "2"))], kind: kind)
        }
        func example(_ rule: LintRule, _ other: TrialSubject) -> LintExample {
            LintExample(
                rule, bad: pair(subject(), other, kind(), isSame: true),
                good: pair(subject(), other, kind(), isSame: false))
        }
        func day(_ start: String) -> LintObservation {
            of(
                """
                {"policy":"never","entries":[{"date":"2026-06-22T10:00:00Z","content":1},{"date":"\(start)","content":2}]}
                """)
        }
        func hours(of step: Int) -> LintObservation {
            let begin = Timestamp(microseconds: now.microseconds - now.microseconds % 86_400_000_000)
            let entries = (0..<48 / step).map { index -> JSONValue in
                ["date": .string((begin + .seconds(index * step * 3_600)).rfc3339), "content": .count(index)]
            }
            let timeline: JSONValue = ["policy": "never", "entries": .array(entries)]
            return of(timeline.canonical)
        }
        func rounds(_ timelines: String..., kind: TrialKind = kind()) -> LintObservation {
            of(plain, kind: kind) { $0.rounds = timelines.map { [answer([(subject(kind), $0)], kind)] } }
        }
        let volatile = kind { $0.volatileFields = ["/at"] }
        func moved(_ second: Int, _ content: String = "1") -> String {
            let entries = [0, 3_600].map { offset in
                let date = (now + .seconds(second + offset)).rfc3339
                return "{\"date\":\"\(date)\",\"content\":[\(content),\(offset)]}"
            }
            return "{\"policy\":\"never\",\"entries\":[\(entries.joined(separator: ","))]}"
        }
        return [
            example(.environmentLocale, subject(locale: "de-DE")),
            example(.environmentTimeZone, subject(timeZone: "Asia/Kolkata")),
            example(.environmentFamily, subject(family: .systemLarge)),
            LintExample(
                .environmentMidnight, bad: day("2026-06-23T00:00:00Z"), good: day("2026-06-23T04:00:00Z")),
            // An hourly forecast has an entry at every midnight.
            LintExample(.environmentMidnight, bad: hours(of: 24), good: hours(of: 1)),
            LintExample(
                .resendChanging, bad: rounds(content("{\"at\":1}"), content("{\"at\":2}")),
                good: rounds(content("{\"at\":1}"), content("{\"at\":2}"), kind: volatile)),
            LintExample(
                .resendDates, bad: rounds(moved(0), moved(1), moved(2)),
                // A single change may come from the data.
                good: rounds(moved(0), moved(1), moved(1))),
        ]
    }

    private static var configurationExamples: [LintExample] {
        let parameter = IntentParameter(
            name: "card", displayName: "Card", type: .custom(typeName: "Card"), hasDynamicOptions: true,
            hasDynamicDefault: true)
        let kind = kind { $0.intent = IntentDefinition(title: "Card", parameters: [parameter]) }
        func choice(_ answer: LintAnswer) -> LintObservation {
            of(plain, kind: kind) {
                $0.choices = [("card", TrialRequest(.options, limit: .seconds(10)), answer)]
            }
        }
        let listed = Array(#"{"options":[{"identifier":"acme","display":"Acme"}]}"#.utf8)
        let options = (try? IntentOptions(listed, of: parameter)) ?? IntentOptions()
        let values = (try? WidgetConfiguration(["card": "acme"])) ?? .empty
        func snapshot(_ status: Int?) -> LintObservation {
            of(plain) {
                $0.snapshots = [timing(.snapshot, status.map { ProviderFailure(.status, "status \($0)", status: $0) })]
            }
        }
        return [
            LintExample(
                .configurationNoOptions, bad: choice(.options(IntentOptions())),
                good: choice(.options(options))),
            LintExample(
                .configurationNoDefault, bad: choice(.defaults(.empty)), good: choice(.defaults(values))),
            LintExample(.configurationNoSnapshot, bad: snapshot(404), good: snapshot(nil)),
        ]
    }
}
