// SPDX-License-Identifier: Apache-2.0

import JSON
import Logging
import ServiceLifecycle
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Placeholders for the environments in which widgets are placed, and to which devices change.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct PlaceholderLoopTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)
    private let sydney = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")

    private let answers: StubProvider.Script = { request in
        .list(
            "placeholders",
            request.items.map { item in
                ["id": item["id"] ?? .null, "content": ["for": item["environment"]?["locale"] ?? .null]]
            })
    }

    private func loop(_ worker: TestWorker) -> PlaceholderLoop {
        PlaceholderLoop(
            context: worker.context, directory: worker.directory, freeSlot: worker.pipeline.freeSlot)
    }

    private func move(
        _ worker: TestWorker, device: String = "d1", to environment: WidgetEnvironment, after seconds: Int = 1
    ) async throws {
        try await worker.store.apply(
            [
                .environmentChanged(
                    app: TestKinds.app, device: device, environment: environment, significantTimeChange: false)
            ], at: at + .seconds(seconds))
    }

    /// Places widgets in environments whose placeholders nobody wants.
    private func place(_ worker: TestWorker, _ placements: [FreshetEvent]) async throws {
        try await worker.store.apply(placements, at: at)
        try await worker.store.sql("DELETE FROM placeholder")
    }

    /// Two kinds' widgets of a device in London, and one of another device.
    private func withPlacedWidgets(_ body: (TestWorker) async throws -> Void) async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .placeholder, answers)
            try await place(
                worker,
                [
                    .placed(.test("w1")), .placed(.test("w2", family: .systemLarge)),
                    .placed(.test("w3", configuration: #"{"card":"acme"}"#)), .placed(.test("w4", kind: "Weather")),
                    .placed(.test("w5", user: "u2", device: "d2", kind: "DueDate")),
                ])
            try await body(worker)
        }
    }

    @Test("A: a widget that is placed in an environment without a placeholder asks for one, and later ones do not")
    func placement() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .placeholder, answers)
            try await worker.store.apply(
                [.placed(.test("w1")), .placed(.test("w2", user: "u2", device: "d2"))], at: at)
            try await loop(worker).pass()
            #expect(worker.provider.requests(to: .placeholder).map(\.items.count) == [1])
            guard case .placeholder(#"{"for":"en-GB"}"#, .some) = try await worker.store.fallback(of: "w1") else {
                Issue.record("the provider's placeholder is not shown")
                return
            }
            try await worker.store.sql("UPDATE placeholder SET fetched_at = fetched_at - interval '2 hours'")
            try await worker.store.apply([.placed(.test("w3"))], at: at + .seconds(1))
            try await loop(worker).pass()
            #expect(worker.provider.requests(to: .placeholder).count == 1)
            try await worker.store.apply(
                [.placed(.test("w4", user: "u3", device: "d3", environment: sydney))], at: at + .seconds(2))
            try await loop(worker).pass()
            let last = worker.provider.requests(to: .placeholder).last
            #expect(last?.items.map { $0["environment"]?["locale"] } == ["en-AU"])
        }
    }

    @Test("A request for timelines that waits for the slot of a placeholder starts when that is answered")
    func slot() async throws {
        try await withWorker { worker in
            try await worker.store.apply([.placed(.test("w1"))], at: at)
            try await worker.store.settle()
            try await worker.store.markUser("u1", lane: .bulk)
            worker.provider.respond(to: .placeholder) { request in
                // The only slot for reloads of everyone is taken.
                #expect(try await worker.start() == 1)
                return try await answers(request)
            }
            try await loop(worker).pass()
            #expect(worker.provider.requests(to: .placeholder).count == 1)
            try await eventually("the timeline is requested") { worker.provider.requests.count == 1 }
        }
    }

    @Test func aDeviceThatMovesGetsThePlaceholdersOfItsNewEnvironment() async throws {
        try await withPlacedWidgets { worker in
            try await move(worker, to: sydney)
            try await loop(worker).pass()
            let requests = worker.provider.requests(to: .placeholder).sorted { $0.kind < $1.kind }
            #expect(requests.map(\.kind) == ["Purchases", "Weather"])
            let purchases = requests[0].items.sorted {
                ($0["family"]?.stringValue ?? "") < ($1["family"]?.stringValue ?? "")
            }
            #expect(purchases.map { $0["family"] } == ["systemLarge", "systemSmall"])
            #expect(
                purchases.allSatisfy {
                    $0["environment"] == ["locale": "en-AU", "timeZone": "Australia/Sydney"] && $0["user"] == nil
                        && $0["configuration"] == nil
                })
            #expect(requests[1].items.map { $0["environment"] } == [["locale": "en-AU"]])
            #expect(requests[0].headers["webhook-signature"]?.hasPrefix("v1,") == true)
            for widget in ["w1", "w2", "w3", "w4"] {
                guard case .placeholder(#"{"for":"en-AU"}"#, .some) = try await worker.store.fallback(of: widget) else {
                    Issue.record("\(widget)")
                    continue
                }
            }
        }
    }

    @Test func changingBackAndForthWithinTheHourRequestsOnlyTheOtherEnvironmentsPlaceholders() async throws {
        try await withPlacedWidgets { worker in
            try await move(worker, to: sydney)
            try await loop(worker).pass()
            try await move(worker, to: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"), after: 2)
            try await move(worker, to: sydney, after: 3)
            try await loop(worker).pass()
            #expect(worker.provider.requests(to: .placeholder).count == 4)
            #expect(
                worker.provider.requests(to: .placeholder).suffix(2).flatMap(\.items)
                    .allSatisfy { $0["environment"]?["locale"] == "en-GB" })
        }
    }

    @Test func anEnvironmentThatIsTheSameAsksForNothing() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .placeholder, answers)
            try await place(worker, [.placed(.test("w1"))])
            try await move(worker, to: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"))
            // Neither an older event nor a removed widget has an effect.
            try await move(worker, to: sydney, after: -1)
            try await worker.store.apply([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(5))
            try await move(worker, to: sydney, after: 6)
            #expect(try await worker.store.integer("SELECT count(*) FROM placeholder") == 0)
        }
    }

    @Test func aProviderWithoutTheEndpointIsNotAskedAgainForADay() async throws {
        try await withWorker(maxBatch: 1) { worker in
            try await place(
                worker,
                [
                    .placed(.test("w1")), .placed(.test("w2", family: .systemLarge)),
                    .placed(.test("w3", kind: "DueDate")),
                ])
            try await move(worker, to: sydney)
            try await loop(worker).pass()
            #expect(worker.provider.requests(to: .placeholder).count == 1, "one answer covers all its kinds")
            try await loop(worker).pass()
            #expect(worker.provider.requests(to: .placeholder).count == 1)
            #expect(worker.failures(logged: "no placeholders") == ["status": 1])
            #expect(try await worker.store.fallback(of: "w1") == .placeholder(content: "{}", fetchedAt: nil))
            let off = "SELECT count(*) FROM placeholder WHERE due_at BETWEEN now() + interval '23 hours' AND now() + "
            #expect(try await worker.store.integer(off + "interval '24 hours'") == 1)
        }
    }

    @Test("Apps take turns, so that many placeholders of one do not hold up those of others")
    func turns() async throws {
        try await withWorker(maxBatch: 1) { worker in
            worker.provider.respond(to: .placeholder, answers)
            try await worker.store.sql(
                """
                INSERT INTO placeholder (kind_id, family, locale, time_zone, due_at)
                SELECT k.id, 0, l.locale, 'Europe/London', now() - l.minutes * interval '1 minute'
                FROM kind k JOIN app a ON a.id = k.app_id
                JOIN (VALUES ('\(TestKinds.app)', 'fr-FR', 9), ('\(TestKinds.app)', 'it-IT', 8),
                             ('\(TestKinds.app)', 'de-DE', 7), ('\(TestKinds.otherApp)', 'es-ES', 1)
                ) l (app, locale, minutes) ON l.app = a.name
                WHERE k.name = 'Purchases'
                """)
            try await loop(worker).pass()
            let locales = worker.provider.requests(to: .placeholder).map {
                $0.items.first?["environment"]?["locale"]?.stringValue
            }
            #expect(locales == ["fr-FR", "es-ES", "it-IT", "de-DE"])
        }
    }

    @Test func aFailureWaitsAndKeepsTheStoredPlaceholder() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .placeholder, answers)
            try await place(worker, [.placed(.test("w1")), .placed(.test("w2", family: .systemLarge))])
            try await move(worker, to: sydney)
            try await loop(worker).pass()
            #expect(try await worker.store.integer("SELECT count(content) FROM placeholder") == 2)

            try await worker.store.sql("UPDATE placeholder SET due_at = now()")
            worker.provider.respond(to: .placeholder) { request in
                let first: JSONValue = ["id": request.items[0]["id"] ?? .null, "content": "new"]
                return .list("placeholders", [first])
            }
            try await loop(worker).pass()
            #expect(worker.failures(logged: "no placeholders") == ["missing": 1])
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM placeholder WHERE due_at BETWEEN now() + interval '5 s' AND "
                        + "now() + interval '2 min' AND attempts = 1 AND content LIKE '%en-AU%'") == 1)
            // An unreadable answer fails every placeholder and makes the endpoint rest.
            try await worker.store.sql("UPDATE placeholder SET due_at = now(), attempts = 0")
            worker.provider.respond(to: .placeholder) { _ in .body(Array("[]".utf8)) }
            try await loop(worker).pass()
            #expect(worker.failures(logged: "no placeholders") == ["missing": 1, "invalid": 2])
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM placeholder WHERE attempts = 1 AND content IS NOT NULL AND due_at > now()")
                    == 2)
        }
    }

    @Test func batchesHoldUpToTheKindsMaximumAndWhatNoLongerFitsIsDropped() async throws {
        try await withWorker(maxBatch: 3) { worker in
            worker.provider.respond(to: .placeholder, answers)
            let families = WidgetFamily.allCases
            try await place(worker, families.enumerated().map { .placed(.test("w\($0)", family: $1)) })
            try await move(worker, to: sydney)
            var apps = TestKinds.apps(provider: worker.provider.url, maxBatch: 3, timeout: .longestTimeout)
            apps[0].kinds[0].families = [.systemSmall, .systemMedium, .systemLarge, .accessoryInline]
            _ = try await worker.store.store.apply(apps, secrets: [:]) { [] }
            try await loop(worker).pass()
            let asked = worker.provider.requests(to: .placeholder)
            #expect(asked.allSatisfy { $0.items.count <= 3 })
            #expect(
                Set(asked.flatMap(\.items).compactMap { $0["family"]?.stringValue })
                    == ["systemSmall", "systemMedium", "systemLarge", "accessoryInline"])
            #expect(try await worker.store.integer("SELECT count(*) FROM placeholder") == 4)
        }
    }

    private func service(of worker: TestWorker) -> TestService {
        TestService(beside: worker) { $0.placeholderInterval = .milliseconds(20) }
    }

    @Test func theServiceFetchesWhatBecomesDueWhileItRuns() async throws {
        try await withWorker { worker in
            worker.provider.respond(to: .placeholder, answers)
            let group = ServiceGroup(services: [service(of: worker).service], logger: .silent)
            async let running: Void = group.run()
            try await place(worker, [.placed(.test("w1"))])
            try await move(worker, to: sydney)
            try await eventually("a placeholder for Sydney is stored") {
                try await worker.store.integer("SELECT count(*) FROM placeholder WHERE content LIKE '%en-AU%'") == 1
            }
            await group.triggerGracefulShutdown()
            try await running
        }
    }

    @Test func stoppingDoesNotWaitForAPlaceholder() async throws {
        try await withWorker(timeout: .seconds(120)) { worker in
            worker.provider.respond(to: .placeholder) { _ in
                try await Gate().pass()
                return .status(200)
            }
            try await place(worker, [.placed(.test("w1"))])
            try await move(worker, to: sydney)
            let group = ServiceGroup(services: [service(of: worker).service], logger: .silent)
            async let running: Void = group.run()
            try await eventually("a placeholder is requested") {
                !worker.provider.requests(to: .placeholder).isEmpty
            }
            await group.triggerGracefulShutdown()
            try await running
            #expect(worker.failures(logged: "no placeholders").isEmpty)
            // The lease expires.
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM placeholder WHERE attempts = 0 AND due_at < now() + interval '131 s'") == 1)
        }
    }

    @Test func twoProcessesShareTheWork() async throws {
        try await withWorker(maxBatch: 1) { worker in
            worker.provider.respond(to: .placeholder, answers)
            try await place(
                worker, WidgetFamily.allCases.enumerated().map { .placed(.test("w\($0)", family: $1)) })
            try await move(worker, to: sydney)
            let other = worker.another()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in [worker, other] { group.addTask { try await loop(worker).pass() } }
                try await group.waitForAll()
            }
            try await loop(worker).pass()
            let families = worker.provider.requests(to: .placeholder).flatMap(\.items).compactMap { $0["family"] }
            #expect(families.count == WidgetFamily.allCases.count, "each family is requested once")
        }
    }
}
