// SPDX-License-Identifier: Apache-2.0

import Crypto
import Foundation
import JSON
import Logging
import ServiceLifecycle
import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

@Suite("Sample provider over HTTP", .timeLimit(.patience))
struct SampleProviderTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    /// Runs a provider on a port that the system chooses while the body runs.
    private func withProvider(
        keys: [SampleApp: [UInt8]] = [:], faults: SampleProvider.Faults = .init(),
        time: Timestamp? = nil, _ body: (SampleProvider, String) async throws -> Void
    ) async throws {
        let (ports, listening) = AsyncStream.makeStream(of: Int.self)
        let provider = SampleProvider(
            seed: 1, keys: keys, faults: faults, now: { time ?? Timestamp.now() }, logger: Self.quiet,
            onListening: { listening.yield($0) })
        let group = ServiceGroup(services: [provider], logger: Self.quiet)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { listening.finish() }
                try await group.run()
            }
            let port = try #require(await ports.first { _ in true })
            #expect(port > 0)
            do {
                try await body(provider, "http://127.0.0.1:\(port)")
            } catch {
                tasks.cancelAll()
                throw error
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    private func post(
        _ url: String, _ body: String, headers: [(String, String)] = []
    ) async throws -> (status: Int, json: JSONValue) {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = "POST"
        request.setValue("application/json", forHTTPHeaderField: "Content-Type")
        for (name, value) in headers { request.setValue(value, forHTTPHeaderField: name) }
        request.httpBody = Data(body.utf8)
        return try await send(request)
    }

    private func get(_ url: String) async throws -> (status: Int, json: JSONValue) {
        try await send(URLRequest(url: try #require(URL(string: url))))
    }

    private func send(_ request: URLRequest) async throws -> (status: Int, json: JSONValue) {
        let session = URLSession(configuration: .ephemeral)
        defer { session.finishTasksAndInvalidate() }
        let (body, response) = try await session.data(for: request)
        let http = try #require(response as? HTTPURLResponse)
        #expect(http.value(forHTTPHeaderField: "Content-Type") == "application/json")
        return (http.statusCode, try JSONValue.parse(Array(body)))
    }

    private static let ids = ["018f0000-0000-7000-8000-000000000001", "018f0000-0000-7000-8000-000000000002"]

    /// Asks for the weather of a city for each id.
    private func askWeather(_ url: String, _ ids: [String] = ids) async throws -> (status: Int, json: JSONValue) {
        let requests = ids.map { #"{"id":"\#($0)","kind":"Weather","configuration":{"city":"\#($0)"}}"# }
        return try await post("\(url)/weather/timelines", #"{"requests":[\#(requests.joined(separator: ","))]}"#)
    }

    @Test("Each requested timeline is answered, in order") func answers() async throws {
        try await withProvider { _, url in
            let answer = try await askWeather(url)
            #expect(answer.status == 200)
            #expect(answer.json["timelines"]?.arrayValue?.map { $0["id"] } == Self.ids.map { .string($0) })
        }
    }

    @Test("Requests are counted in sum, by kind and by timeline") func counts() async throws {
        try await withProvider { provider, url in
            _ = try await askWeather(url)
            _ = try await askWeather(url, [Self.ids[0]])
            let statistics = provider.statistics { $0 }
            #expect(statistics.answered == SampleStatistics.Counts(requests: 2, timelines: 3, largestBatch: 2))
            #expect(statistics.kinds == [.weather: ["Weather": statistics.answered]])
            #expect(statistics.fetches.mapValues(\.count) == [Self.ids[0]: 2, Self.ids[1]: 1])
            #expect(statistics.fetches[Self.ids[0]]?.lastRevision == 2)
        }
    }

    @Test("The counts are shown") func stats() async throws {
        try await withProvider { _, url in
            _ = try await askWeather(url)
            _ = try await askWeather(url, [Self.ids[0]])
            let stats = try await get("\(url)/stats")
            #expect(stats.status == 200)
            #expect(stats.json["requests"] == 2 && stats.json["timelines"] == 3)
            #expect(stats.json["meanBatch"]?.numberValue?.double == 1.5)
            #expect(stats.json["kinds"]?.arrayValue?.first?["largestBatch"] == 2)
        }
    }

    @Test("The fetches of a timeline are shown; those of an unknown one are not found") func fetches() async throws {
        try await withProvider { _, url in
            _ = try await askWeather(url)
            #expect(try await get("\(url)/stats/timelines/\(Self.ids[1])").json["fetches"] == 1)
            #expect(try await get("\(url)/stats/timelines/nobody").status == 404)
        }
    }

    @Test("DESIGN.md, D: sections Credit and Debit, filtered by search; the default card is the primary one")
    func card() async throws {
        try await withProvider { _, url in
            let options = try await post("\(url)/bank/options", #"{"kind":"RecentPurchases","parameter":"card"}"#)
            #expect(options.json["sections"]?.arrayValue?.map { $0["title"] } == ["Credit", "Debit"])
            let found = try await post(
                "\(url)/bank/options", #"{"kind":"RecentPurchases","parameter":"card","search":"SOUP"}"#)
            #expect(
                found.json["sections"] == [
                    ["title": "Credit", "options": [["identifier": "soup", "display": "Soup Pay"]]]
                ])
            let unknown = try await post("\(url)/bank/options", #"{"kind":"RecentPurchases","parameter":"hero"}"#)
            #expect(unknown.status == 422)
            #expect(unknown.json["error"]?["code"] == "unknownParameter")
            let defaults = try await post("\(url)/bank/defaults", #"{"kind":"DueDate"}"#)
            #expect(defaults.json == ["values": ["card": ["identifier": "acme", "display": "Acme Card"]]])
        }
    }

    @Test("DESIGN.md, D: the search finds any stock symbol, also outside the list")
    func symbol() async throws {
        try await withProvider { _, url in
            let opened = try await post("\(url)/stocks/options", #"{"kind":"Symbol","parameter":"symbol"}"#)
            #expect(opened.json["sections"]?.arrayValue?.first?["options"]?.arrayValue?.count == 3)
            let found = try await post(
                "\(url)/stocks/options", #"{"kind":"Symbol","parameter":"symbol","search":"xyz"}"#)
            #expect(
                found.json["sections"]?.arrayValue?.first?["options"] == [["identifier": "XYZ", "display": "XYZ"]])
        }
    }

    @Test("DESIGN.md, D: Freshet accepts the options and defaults of every sample")
    func everySample() async throws {
        let context = ConfigurationContext(
            user: "u1", family: .systemSmall,
            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"), values: .empty)
        try await withProvider { _, url in
            for kind in SampleApp.definitions(port: 1).flatMap(\.kinds) {
                guard let intent = kind.intent else { continue }
                let base = "\(url)/" + (kind.providerURL.split(separator: "/").last ?? "")
                for parameter in intent.parameters where parameter.hasDynamicOptions {
                    let question = OptionsQuestion(parameter: parameter.name, context: context)
                    let answer = try await post(
                        "\(base)/options", String(decoding: question.encode(kind: kind.name), as: UTF8.self))
                    #expect(try !IntentOptions(answer.json.encoded, of: parameter).sections.isEmpty)
                }
                let answer = try await post(
                    "\(base)/defaults", String(decoding: context.encode(kind: kind.name), as: UTF8.self))
                let defaults = try intent.dynamicDefaults(answer.json.encoded, family: .systemSmall)
                #expect(intent.undecided(in: defaults).isEmpty)
            }
        }
    }

    @Test func answersTheOtherQuestions() async throws {
        try await withProvider { provider, url in
            let snapshot = try await post("\(url)/rangers/snapshot", #"{"requests":[{"id":"a","kind":"EmojiRanger"}]}"#)
            let entry = snapshot.json["snapshots"]?.arrayValue?.first?["entry"]
            #expect(entry?["content"]?["hero"]?["name"] == "Power Panda")
            #expect(entry?["date"]?.stringValue.flatMap { Timestamp(rfc3339: $0) } != nil)

            let placeholder = try await post("\(url)/bank/placeholder", #"{"kind":"DueDate","requests":[{"id":"a"}]}"#)
            #expect(placeholder.json["placeholders"]?.arrayValue?.first?["content"]?["daysLeft"] == 0)

            #expect(provider.statistics(\.otherRequests) == 2)
            #expect(provider.statistics(\.answered.requests) == 0)
        }
    }

    @Test func whatItCannotAnswerIsRefused() async throws {
        try await withProvider { provider, url in
            let garbage = try await post("\(url)/bank/timelines", "{")
            #expect(garbage.status == 400)
            #expect(garbage.json["error"]?["code"] == "malformed")
            let pointed = try await post("\(url)/bank/timelines", #"{"requests":[{"id":7}]}"#)
            #expect(pointed.json["error"]?["pointer"] == "/requests/0/id")
            let unknown = try await post("\(url)/bank/timelines", #"{"requests":[{"id":"a","kind":"Weather"}]}"#)
            #expect(unknown.status == 404)
            #expect(unknown.json["error"]?["code"] == "unknownKind")
            let padding = String(repeating: " ", count: SampleProvider.maximumRequestBytes + 1)
            let large = try await post("\(url)/bank/timelines", padding)
            #expect(large.status == 413)
            #expect(provider.statistics(\.rejectedRequests) == 4)
            #expect(provider.statistics(\.answered.requests) == 0)
        }
    }

    @Test func appsWithASecretTakeOnlySignedRequests() async throws {
        let key = Array("thirty-two bytes of a known key!".utf8)
        let seconds = 1_614_265_330
        let now = Timestamp(microseconds: Int64(seconds) * 1_000_000)
        try await withProvider(keys: [.bank: key], time: now) { provider, url in
            let body = #"{"kind":"DueDate","parameter":"card","requests":[{"id":"a"}]}"#
            let unsigned = try await post("\(url)/bank/timelines", body)
            #expect(unsigned.status == 401)
            let signed = Data("m1.\(seconds).\(body)".utf8)
            let code = HMAC<SHA256>.authenticationCode(for: signed, using: SymmetricKey(data: key))
            let headers = [
                ("Webhook-Id", "m1"), ("Webhook-Timestamp", "\(seconds)"),
                ("Webhook-Signature", "v1," + Data(code).base64EncodedString()),
            ]
            let trusted = try await post("\(url)/bank/timelines", body, headers: headers)
            #expect(trusted.status == 200)
            let changed = try await post("\(url)/bank/timelines", body + " ", headers: headers)
            #expect(changed.status == 401)
            // The same applies to the other requests.
            for endpoint in ProviderEndpoint.allCases {
                let unsigned = try await post("\(url)/bank/\(endpoint.rawValue)", body)
                #expect(unsigned.status == 401, "\(endpoint)")
                let trusted = try await post("\(url)/bank/\(endpoint.rawValue)", body, headers: headers)
                #expect(trusted.status == 200, "\(endpoint)")
            }
            // An app without a secret accepts every request.
            let other = try await post("\(url)/weather/timelines", #"{"requests":[]}"#)
            #expect(other.status == 200)
            #expect(provider.statistics(\.rejectedRequests) == 2 + ProviderEndpoint.allCases.count)
        }
    }

    @Test func failedRequestsAre503() async throws {
        try await withProvider(faults: .init(requestFailures: 1)) { provider, url in
            let answer = try await post("\(url)/bank/timelines", #"{"requests":[{"id":"a","kind":"DueDate"}]}"#)
            #expect(answer.status == 503)
            #expect(provider.statistics(\.failedRequests) == 1)
            #expect(provider.statistics(\.answered.timelines) == 0)
        }
    }

    @Test func portThatIsTakenEndsTheProvider() async throws {
        try await withProvider { _, url in
            let port = try #require(Int(url.split(separator: ":").last ?? ""))
            let second = SampleProvider(seed: 1, port: port, logger: Self.quiet)
            await #expect(throws: (any Error).self) { try await second.run() }
        }
    }
}
