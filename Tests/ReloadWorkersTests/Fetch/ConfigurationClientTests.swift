// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import JSON
import Logging
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Requests for options and defaults (DESIGN.md, D), over real HTTP.
@Suite("Options and defaults from providers", .timeLimit(.patience))
struct ConfigurationClientTests {
    /// Requests defaults without the short time limit of the client.
    private struct PatientFetcher: ProviderFetching {
        let client: ProviderClient

        func fetch(_ call: ProviderCall) async throws -> [UInt8] {
            var call = call
            if call.endpoint == .defaults { call.timeout = Patience.limit }
            return try await client.fetch(call)
        }
    }

    private struct Setup {
        let client: ConfigurationClient
        let provider: StubProvider
        let kind: KindDefinition
        let clock: HandClock

        func options(_ search: String? = nil, user: String = "u1") async throws(ProviderFailure) -> IntentOptions {
            let context = ConfigurationContext(
                user: user, family: .systemSmall,
                environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"), values: .empty)
            return try await client.options(
                OptionsQuestion(parameter: "card", search: search, context: context), of: kind, app: TestKinds.app)
        }

        func optionsFailure(_ search: String? = nil) async -> ProviderFailure? {
            do throws(ProviderFailure) {
                _ = try await options(search)
                return nil
            } catch {
                return error
            }
        }

        func defaultsFailure() async -> ProviderFailure? {
            do throws(ProviderFailure) {
                _ = try await defaults()
                return nil
            } catch {
                return error
            }
        }

        func defaults() async throws(ProviderFailure) -> WidgetConfiguration {
            let context = ConfigurationContext(
                user: "u1", family: .systemSmall,
                environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"), values: .empty)
            return try await client.defaults(context, of: kind, app: TestKinds.app)
        }
    }

    private static let answer = Array(
        #"{"sections":[{"title":"Credit","options":[{"identifier":"acme","display":"Acme Card"}]}]}"#.utf8)

    private func withSetup(
        allowing patterns: [String] = ["127.0.0.1"], timeout: Duration = .longestTimeout,
        _ body: (Setup) async throws -> Void
    ) async throws {
        try await withStubProvider { provider in
            provider.respond(to: .options) { _ in .body(Self.answer) }
            let kind = KindDefinition(
                name: "Purchases", providerURL: provider.url, timeout: timeout, placeholder: .object(JSONObject()),
                intent: IntentDefinition(
                    title: "Purchases",
                    parameters: [
                        IntentParameter(
                            name: "card", displayName: "Card", type: .custom(typeName: "Card"),
                            hasDynamicOptions: true, hasDynamicDefault: true)
                    ]))
            try await withStore([AppDefinition(name: TestKinds.app, kinds: [kind])]) { store in
                let egress = EgressGuard(try EgressPolicy(allowing: patterns))
                let configuration = ProviderClient.configuration(egress: egress, limits: .patient)
                try await HTTPClient.withHTTPClient(configuration: configuration) { http in
                    let clock = HandClock()
                    let client = ConfigurationClient(
                        fetcher: PatientFetcher(client: ProviderClient(http: http, egress: egress)),
                        directory: DirectoryCache(pool: store.pool),
                        clock: clock, logger: Logger(label: "test"))
                    try await body(Setup(client: client, provider: provider, kind: kind, clock: clock))
                }
            }
        }
    }

    @Test("D: dynamic options come from the provider, in sections, through a signed request")
    func sections() async throws {
        try await withSetup { setup in
            let options = try await setup.options()
            #expect(options.sections.map(\.title) == ["Credit"])
            let request = try #require(setup.provider.requests(to: .options).first)
            let body = try JSONValue.parse(request.body)
            #expect(body["parameter"] == "card" && body["user"] == "u1" && body["search"] == nil)
            let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
            #expect(
                request.headers["webhook-signature"]
                    == ProviderClient.signature(
                        secrets: [Array(repeating: 7, count: 32)], id: try #require(request.headers["webhook-id"]),
                        timestamp: timestamp, body: request.body))
        }
    }

    @Test("Users with similar IDs get separate answers")
    func users() async throws {
        try await withSetup { setup in
            for user in ["andr\u{e9}", "andre\u{301}", "andr\u{e9}"] { _ = try await setup.options(user: user) }
            let users = try setup.provider.requests(to: .options).map { try JSONValue.parse($0.body)["user"] }
            #expect(users.map { $0?.stringValue?.unicodeScalars.count } == [5, 6])
        }
    }

    @Test("D: each search term is sent to the provider; an answer is cached for ten seconds")
    func kept() async throws {
        try await withSetup { setup in
            for _ in 0..<2 {
                _ = try await setup.options()
                _ = try await setup.options("a")
                _ = try await setup.options("ac")
                _ = try await setup.options(user: "u2")
            }
            let terms = try setup.provider.requests(to: .options).map { try JSONValue.parse($0.body)["search"] }
            #expect(terms == [nil, "a", "ac", nil])
            setup.clock.advance(by: ConfigurationClient.lifetime + .milliseconds(1))
            _ = try await setup.options()
            #expect(setup.provider.requests(to: .options).count == 5)
        }
    }

    @Test("Concurrent equal requests are combined, also when they fail")
    func singleFlight() async throws {
        try await withSetup { setup in
            let gate = Gate()
            setup.provider.respond(to: .options) { _ in
                try await gate.pass()
                return .status(500)
            }
            await withTaskGroup(of: ProviderFailure.Reason?.self) { group in
                for _ in 0..<5 {
                    group.addTask { await setup.optionsFailure()?.reason }
                }
                try? await setup.provider.receivedOthers.reaches(1)
                gate.open()
                for await reason in group { #expect(reason == .status) }
            }
            // Callers after the failure send a new request.
            #expect(setup.provider.requests(to: .options).count <= 5)
        }
    }

    @Test(
        "A failing provider causes an error, never an empty list",
        arguments: [
            (StubProvider.Answer.status(500), ProviderFailure.Reason.status), (.status(404), .status),
            (.body(Array("[]".utf8)), .invalid), (.body(Array(#"{"options":[{}]}"#.utf8)), .invalid),
            (.body(answer, contentType: "text/html"), .invalid), (.stream(bytes: 20 << 20), .tooLarge),
        ])
    func failing(answer: StubProvider.Answer, reason: ProviderFailure.Reason) async throws {
        try await withSetup { setup in
            setup.provider.respond(to: .options) { _ in answer }
            let failure = await setup.optionsFailure()
            #expect(failure?.reason == reason, "\(failure?.message ?? "no failure")")
        }
    }

    @Test("An invalid answer is reported with a pointer to the value")
    func place() async throws {
        try await withSetup { setup in
            setup.provider.respond(to: .options) { _ in .body(Array(#"{"options":[{"display":"A"}]}"#.utf8)) }
            let failure = await setup.optionsFailure()
            #expect(failure?.message.contains("/options/0/identifier") == true)
        }
    }

    @Test("A provider in a private network that is not allowed is not contacted")
    func egress() async throws {
        try await withSetup(allowing: []) { setup in
            let failure = await setup.optionsFailure()
            #expect(failure?.reason == .refused)
            #expect(setup.provider.requests(to: .options).isEmpty)
        }
    }

    @Test("After five failures an endpoint rests and is tried again later; the other endpoint is not affected")
    func breaker() async throws {
        try await withSetup { setup in
            setup.provider.respond(to: .options) { _ in .status(500) }
            setup.provider.respond(to: .defaults) { _ in .body(Array(#"{"values":{"card":"acme"}}"#.utf8)) }
            for number in 0..<5 {
                let failure = await setup.optionsFailure("\(number)")
                #expect(failure?.reason == .status)
            }
            let resting = await setup.optionsFailure()
            #expect(resting?.reason == .resting)
            #expect((resting?.retryAfter ?? .zero) > .zero)
            #expect(setup.provider.requests(to: .options).count == 5)
            let defaults = try await setup.defaults()
            #expect(defaults.value == ["card": "acme"])
            setup.provider.respond(to: .options) { _ in .body(Self.answer) }
            setup.clock.advance(by: .seconds(60))
            let options = try await setup.options()
            #expect(options.sections.count == 1)
        }
    }

    @Test("D: a dynamic default comes from the provider; a default for another parameter is refused")
    func defaults() async throws {
        try await withSetup { setup in
            setup.provider.respond(to: .defaults) { _ in
                .body(Array(#"{"values":{"card":{"identifier":"acme","display":"Acme Card"}}}"#.utf8))
            }
            let defaults = try await setup.defaults()
            #expect(defaults.value == ["card": ["identifier": "acme", "display": "Acme Card"]])
            setup.provider.respond(to: .defaults) { _ in .body(Array(#"{"values":{"category":"all"}}"#.utf8)) }
            let failure = await setup.defaultsFailure()
            #expect(failure?.reason == .invalid)
        }
    }

    @Test("A provider that does not answer in time causes a time-out error")
    func slow() async throws {
        try await withSetup(timeout: .milliseconds(100)) { setup in
            setup.provider.respond(to: .options) { _ in
                try await Gate().pass()
                return .status(200)
            }
            let failure = await setup.optionsFailure()
            #expect(failure?.reason == .timeout)
        }
    }
}
