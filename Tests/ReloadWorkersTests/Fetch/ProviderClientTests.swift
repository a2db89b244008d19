// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import TestSupport
import Testing
import WidgetModel

@testable import ReloadWorkers

/// Requests over real HTTP.
@Suite(.timeLimit(.patience))
struct ProviderClientTests {
    private func withClient(
        allowing patterns: [String] = ["127.0.0.1"], resolver: HostResolver = HostResolver(),
        _ body: (ProviderClient, StubProvider) async throws -> Void
    ) async throws {
        try await withStubProvider { provider in
            let egress = EgressGuard(try EgressPolicy(allowing: patterns), resolver: resolver)
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: ProviderClient.configuration(egress: egress, limits: .patient))
            do {
                try await body(ProviderClient(http: http, egress: egress), provider)
            } catch {
                try await http.shutdown()
                throw error
            }
            try await http.shutdown()
        }
    }

    private func call(_ url: String, timeout: Duration = Patience.limit, limit: Int = 1 << 20) -> ProviderCall {
        ProviderCall(
            url: url, secrets: [Array("secret".utf8)], body: Array(#"{"requests":[]}"#.utf8),
            timeout: timeout, maximumResponseBytes: limit)
    }

    private func reason(_ body: () async throws -> [UInt8]) async -> ProviderFailure.Reason? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? ProviderFailure)?.reason
        }
    }

    @Test("A refused connection is told in plain words, without the names of libraries' errors")
    func refusedConnection() async throws {
        try await withClient { client, _ in
            // Nothing listens at port 1.
            do {
                _ = try await client.fetch(call("http://127.0.0.1:1/bank"))
                Issue.record("the connection is not refused")
            } catch let failure as ProviderFailure {
                #expect(failure.reason == .connection)
                #expect(failure.message == "the connection is refused: nothing listens at the provider's address")
            }
        }
        let closed = ProviderClient.words(for: HTTPClientError.remoteConnectionClosed)
        #expect(closed == "the provider closed the connection before it answered")
    }

    @Test func aRequestIsSignedAndItsAnswerRead() async throws {
        try await withClient { client, provider in
            provider.respond { _ in
                .body(Array(#"{"timelines":[]}"#.utf8), contentType: "application/json; charset=utf-8")
            }
            let begin = Timestamp.now().microseconds / 1_000_000
            let answer = try await client.fetch(call(provider.url))
            #expect(String(decoding: answer, as: UTF8.self) == #"{"timelines":[]}"#)
            let request = try #require(provider.requests.first)
            #expect(request.headers["content-type"] == "application/json")
            let id = try #require(request.headers["webhook-id"])
            let timestamp = try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) })
            #expect((begin...Timestamp.now().microseconds / 1_000_000).contains(timestamp))
            #expect(
                request.headers["webhook-signature"]
                    == ProviderClient.signature(
                        secrets: [Array("secret".utf8)], id: id, timestamp: timestamp, body: request.body))

            var unsigned = call(provider.url)
            unsigned.secrets = []
            _ = try await client.fetch(unsigned)
            #expect(provider.requests.last?.headers["webhook-signature"] == nil)
        }
    }

    @Test func answersUpToTheLimitAreRead() async throws {
        try await withClient { client, provider in
            provider.respond { _ in .body(Array(repeating: 32, count: 1_000)) }
            let answer = try await client.fetch(call(provider.url, limit: 1_000))
            #expect(answer.count == 1_000)
            #expect(await reason { try await client.fetch(call(provider.url, limit: 999)) } == .tooLarge)
            provider.respond { _ in .stream(bytes: 1 << 30) }
            #expect(await reason { try await client.fetch(call(provider.url, limit: 100_000)) } == .tooLarge)
        }
    }

    @Test(arguments: ["", "text/plain", "application/jsonp", "text/json"])
    func onlyJSONIsRead(contentType: String) async throws {
        #expect(throws: ProviderFailure.self) { try ProviderClient.requireJSON(contentType) }
    }

    @Test(arguments: ["application/json", "Application/JSON;charset=utf-8", "application/problem+json"])
    func contentTypesOfJSON(contentType: String) async throws {
        #expect(throws: Never.self) { try ProviderClient.requireJSON(contentType) }
    }

    @Test func aRedirectIsNotFollowed() async throws {
        try await withClient { client, provider in
            provider.respond { _ in .status(302, headers: ["location": "/widgets/timelines"]) }
            #expect(await reason { try await client.fetch(call(provider.url)) } == .status)
            #expect(provider.requests.count == 1)
        }
    }

    @Test func anAnswerThatHangsIsGivenUp() async throws {
        try await withClient { client, provider in
            provider.respond { _ in
                try await Gate().pass()
                return .status(200)
            }
            let call = call(provider.url, timeout: .milliseconds(200))
            #expect(await reason { try await client.fetch(call) } == .timeout)
        }
    }

    @Test func aCancelledRequestEndsAtOnce() async throws {
        try await withClient { client, provider in
            provider.respond { _ in
                try await Gate().pass()
                return .timelines([])
            }
            let fetching = Task { try await client.fetch(call(provider.url, timeout: .seconds(3_600))) }
            try await provider.received.reaches(1)
            fetching.cancel()
            await #expect(throws: CancellationError.self) { try await fetching.value }
        }
    }

    @Test func onlyPermittedAddressesAreCalled() async throws {
        try await withClient(allowing: []) { client, provider in
            #expect(await reason { try await client.fetch(call(provider.url)) } == .refused)
            #expect(provider.requests.isEmpty)
        }
        try await withClient(allowing: ["127.0.0.1"]) { client, provider in
            for url in ["ftp://127.0.0.1/", "http://", "file:///etc/passwd", "http://user@127.0.0.1/", "gopher://x"] {
                #expect(await reason { try await client.fetch(call(url)) } == .refused)
            }
        }
    }

    @Test func aHostNameCanBeAllowedWithAnyAddress() async throws {
        try await withClient(allowing: ["localhost"]) { client, provider in
            provider.respond { _ in .timelines([]) }
            let url = provider.url.replacing("127.0.0.1", with: "localhost")
            #expect(await reason { try await client.fetch(call(url)) } == nil)
            #expect(
                await reason { try await client.fetch(call(provider.url)) } == .refused, "the address itself is not")
        }
    }

    @Test func aNameThatLeadsElsewhereWhenItIsCalledIsRefused() async throws {
        // The address is public in the look-up and private in the connection.
        let resolver = HostResolver { _ in [IPAddress(v4: 0x0808_0808)] }
        try await withClient(allowing: [], resolver: resolver) { client, provider in
            #expect(await reason { try await client.fetch(call(provider.url)) } == .refused)
            #expect(provider.requests.isEmpty)
        }
    }

    @Test func aHostThatIsNotFoundIsUnresolved() async throws {
        try await withClient { client, _ in
            #expect(await reason { try await client.fetch(call("http://no-such-host.invalid/")) } == .unresolved)
        }
    }
}
