// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Locales and time zones as devices report them", .timeLimit(.patience))
struct ReportedEnvironmentTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    private func placed(_ widget: String, kind: String = "Purchases", _ locale: String, _ timeZone: String)
        -> FreshetEvent
    {
        var placement = WidgetPlacement.test(widget)
        placement.kind = kind
        placement.environment = WidgetEnvironment(storedLocale: locale, timeZone: timeZone)
        return .placed(placement)
    }

    @Test("Identifiers with keywords and offsets are accepted, and many of them divert no app")
    func accepted() async throws {
        try await IngestHarness.lend(partitions: 1, deadLetters: .few(5)) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish(
                    (0..<150).map { placed("w\($0)", "en_US@calendar=japanese", "GMT+0530") }, at: at)
                let moved = FreshetEvent.environmentChanged(
                    app: TestKinds.app, device: "d1",
                    environment: WidgetEnvironment(storedLocale: "de_DE@rg=chzzzz", timeZone: "+02:00"),
                    significantTimeChange: false)
                let donated = FreshetEvent.interactionDonated(
                    app: TestKinds.app, user: "u1",
                    DonatedInteraction(kind: "Purchases", timeZone: "Europe/Atlantis"))
                try await ingest.publish([placed("other", "fr_FR", "UTC"), donated], at: at)
                try await ingest.waitUntilApplied(152)
                let environment = try #require(try await ingest.store.widget("w0")).environment
                #expect(environment.locale == "en-US-u-ca-japanese" && environment.timeZone == "Asia/Kolkata")
                try await ingest.publish([moved], at: at + .seconds(1))
                try await ingest.waitUntilApplied(153)
            }
            #expect(try await ingest.letters("true") == 0)
            #expect(try await !ingest.isDiverted())
            let environment = try #require(try await ingest.store.widget("w149")).environment
            #expect(environment.locale == "de-DE-u-rg-chzzzz" && environment.timeZone == "Etc/GMT-2")
        }
    }

    @Test("A widget is refused for an unusable locale or time zone only if its kind varies by it")
    func unusable() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(
                    [
                        placed("shared", kind: "Weather", "?", "Europe/Atlantis"),
                        placed("varying", "en", "Europe/Atlantis"),
                    ], at: at)
                let moved = [("?", "Europe/Berlin"), ("fr", "Europe/Atlantis"), ("?", "?")].map { locale, zone in
                    FreshetEvent.environmentChanged(
                        app: TestKinds.app, device: "d1",
                        environment: WidgetEnvironment(storedLocale: locale, timeZone: zone),
                        significantTimeChange: false)
                }
                try await ingest.publish(moved, at: at)
                try await ingest.waitUntilApplied(5)
            }
            let environment = try #require(try await ingest.store.widget("shared")).environment
            #expect(environment.locale == "fr" && environment.timeZone == "Europe/Berlin", "the usable values apply")
            #expect(try await ingest.store.widget("varying") == nil)
            #expect(try await ingest.letters("pointer = '/environment/timeZone' AND code = 'invalidValue'") == 1)
            #expect(try await ingest.letters("pointer = '/environment/locale' AND code = 'invalidValue'") == 1)
        }
    }
}
