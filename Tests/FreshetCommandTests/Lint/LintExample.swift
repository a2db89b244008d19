// SPDX-License-Identifier: Apache-2.0

import JSON
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

@testable import ProviderTools

/// Two observations, of which one breaks a rule.
struct LintExample: Sendable, CustomTestStringConvertible {
    let rule: LintRule
    let bad: LintObservation
    let good: LintObservation

    var testDescription: String { rule.id }

    init(_ rule: LintRule, bad: LintObservation, good: LintObservation) {
        (self.rule, self.bad, self.good) = (rule, bad, good)
    }

    static let now = Timestamp(rfc3339: "2026-06-22T10:07:31Z") ?? .distantPast

    static func kind(_ change: (inout KindDefinition) -> Void = { _ in }) -> TrialKind {
        var definition = KindDefinition(name: "K", providerURL: "http://127.0.0.1:1/p", placeholder: [:])
        change(&definition)
        return TrialKind(app: "com.example.app", definition: definition, secrets: [])
    }

    static func subject(
        _ kind: TrialKind = kind(), user: String = "u1", family: WidgetFamily = .systemMedium, locale: String = "en-US",
        timeZone: String = "America/New_York"
    ) -> TrialSubject {
        TrialSubject(
            kind, user: user, family: family,
            environment: WidgetEnvironment(storedLocale: locale, timeZone: timeZone), configuration: .empty)
    }

    /// An observation of a provider's timeline, without its ID.
    static func of(
        _ timeline: String, subject: TrialSubject? = nil, kind: TrialKind = kind(),
        change: (inout LintObservation) -> Void = { _ in }
    ) -> LintObservation {
        of([(subject ?? Self.subject(kind), timeline)], kind: kind, change: change)
    }

    static func of(
        _ timelines: [(TrialSubject, String)], kind: TrialKind = kind(),
        change: (inout LintObservation) -> Void = { _ in }
    ) -> LintObservation {
        var observation = LintObservation(kind: kind, began: now)
        observation.rounds = [[answer(timelines, kind)]]
        change(&observation)
        return observation
    }

    /// A provider's answer with these timelines, parsed as by the service.
    static func answer(_ timelines: [(TrialSubject, String)], _ kind: TrialKind = kind()) -> TrialAnswer<ParsedTimeline>
    {
        let elements = timelines.map { subject, timeline in
            "{\"id\":\"\(subject.id)\",\(timeline.dropFirst())"
        }
        let body = Array("{\"timelines\":[\(elements.joined(separator: ","))]}".utf8)
        let requested = timelines.map { subject, _ in
            RequestedTimeline(
                subject.id, volatileFields: kind.definition.volatilePointers,
                family: subject.identity.family)
        }
        var answer = TrialAnswer<ParsedTimeline>(request: TrialRequest(.timelines, limit: .seconds(10)))
        do {
            let parsed = try ProviderResponse.parse(body, requested: requested)
            answer.foreign = parsed.foreignIDs
            answer.elements = zip(timelines, parsed.outcomes).map { ($0.0, $1) }
        } catch {
            answer.request.failure = ProviderFailure(.invalid, "\(error)")
        }
        return answer
    }

    /// Entries every half hour from now, with these members.
    static func timeline(_ entries: [String], policy: String = "\"never\"", minutes: Int = 30) -> String {
        let list = entries.enumerated().map { index, entry in
            "{\"date\":\"\((now + .seconds(60 * minutes * index)).rfc3339)\",\(entry)}"
        }
        return "{\"policy\":\(policy),\"entries\":[\(list.joined(separator: ","))]}"
    }

    static func content(_ json: String) -> String { timeline(["\"content\":\(json)"]) }

    static func after(_ date: String) -> String { timeline(["\"content\":1"], policy: "{\"after\":\"\(date)\"}") }
}
