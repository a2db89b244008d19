// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import NIOSSL
import TestSupport
import Testing
import WidgetModel

@testable import ReloadWorkers

/// Providers that hang, trickle or send without end: each costs bounded time and memory.
@Suite(.timeLimit(.patience))
struct HostileProviderTests {
    /// Longer than the test may take, so that another limit ends the call.
    private static let never = Duration.seconds(86_400)
    private static let json = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"

    private func failure(
        of behaviour: RawServer.Behaviour, timeout: Duration = Self.never, limit: Int = 1 << 20,
        connection: ConnectionLimits = .patient, certificate: String? = nil, newestTLS: TLSVersion? = nil,
        scheme: String = "http", host: String = "127.0.0.1", inspect: (RawServer) -> Void = { _ in }
    ) async throws -> ProviderFailure? {
        try await withRawServer(behaviour, certificate: certificate, newestTLS: newestTLS) { server, port in
            let egress = EgressGuard(try EgressPolicy(allowing: ["127.0.0.1", "localhost", "::1"]))
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: ProviderClient.configuration(egress: egress, limits: connection))
            var failure: ProviderFailure?
            do {
                _ = try await ProviderClient(http: http, egress: egress).fetch(
                    ProviderCall(
                        url: "\(scheme)://\(host):\(port)/widgets", secrets: [[1]], body: Array("{}".utf8),
                        timeout: timeout, maximumResponseBytes: limit))
            } catch let error as ProviderFailure {
                failure = error
            } catch {
                try await http.shutdown()
                throw error
            }
            try await http.shutdown()
            inspect(server)
            return failure
        }
    }

    // MARK: Time

    @Test func aProviderThatNeverAnswersIsGivenUpAfterTheReadTimeout() async throws {
        let failure = try await failure(of: .hangs, connection: ConnectionLimits(readTimeout: .milliseconds(200)))
        #expect(failure?.reason == .timeout)
    }

    @Test func aProviderThatStopsInTheMiddleIsGivenUpAfterTheReadTimeout() async throws {
        let failure = try await failure(
            of: .says(Self.json + "content-length: 100\r\n\r\n{"),
            connection: ConnectionLimits(readTimeout: .milliseconds(200)))
        #expect(failure?.reason == .timeout)
    }

    @Test func aProviderThatDribblesIsGivenUpAfterTheWholeTime() async throws {
        let failure = try await failure(
            of: .dribbles(Self.json + "content-length: 100000\r\n\r\n", every: .milliseconds(20)),
            timeout: .milliseconds(600), connection: ConnectionLimits(readTimeout: Self.never))
        #expect(failure?.reason == .timeout)
    }

    @Test func headersThatDribbleAreNoBetter() async throws {
        let failure = try await failure(
            of: .dribbles("HTTP/1.1 200 OK\r\nx-padding:", every: .milliseconds(20)), timeout: .milliseconds(500))
        #expect(failure?.reason == .timeout)
    }

    @Test func aServerThatDoesNotSpeakTLSIsGivenUpAfterTheConnectTimeout() async throws {
        let failure = try await failure(
            of: .hangs, connection: ConnectionLimits(connectTimeout: .milliseconds(200)), scheme: "https")
        #expect(failure?.reason == .timeout)
    }

    // MARK: Size

    static let gigabytes: [RawServer.Behaviour] = [
        .pours(json + "content-length: 1073741824\r\n\r\n", piece: String(repeating: " ", count: 65_536)),
        .pours(json + "\r\n", piece: String(repeating: " ", count: 65_536)),
        .pours(
            json + "transfer-encoding: chunked\r\n\r\n",
            piece: "10000\r\n" + String(repeating: " ", count: 65_536) + "\r\n"),
    ]

    @Test(arguments: gigabytes.indices)
    func aGigabyteIsNotRead(index: Int) async throws {
        let failure = try await failure(of: Self.gigabytes[index], limit: 1 << 20) { server in
            // The bytes in the sockets' buffers are sent, but never read.
            #expect(server.sent < 32 << 20)
        }
        #expect(failure?.reason == .tooLarge)
    }

    @Test func endlessHeadersAreNotRead() async throws {
        let failure = try await failure(
            of: .pours("HTTP/1.1 200 OK\r\n", piece: "x: " + String(repeating: "y", count: 1_000) + "\r\n")
        ) { #expect($0.sent < 32 << 20) }
        #expect(failure?.reason == .connection)
    }

    @Test func endlessTrailersAreNotRead() async throws {
        let failure = try await failure(
            of: .pours(
                Self.json + "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
                piece: "x: " + String(repeating: "y", count: 1_000) + "\r\n")
        ) { #expect($0.sent < 32 << 20) }
        #expect(failure?.reason == .connection)
    }

    @Test func encodedAnswersAreNotDecoded() async throws {
        let failure = try await failure(
            of: .answers(Self.json + "content-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}"))
        #expect(failure?.reason == .invalid)
        #expect(failure?.message.contains("gzip") == true)
    }

    @Test(arguments: ["nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", ""])
    func anAnswerThatIsNotHTTPIsAFailedConnection(text: String) async throws {
        #expect(try await failure(of: .answers(text))?.reason == .connection)
    }

    @Test func anAnswerThatIsCutShortIsAFailedConnection() async throws {
        let failure = try await failure(of: .answers(Self.json + "content-length: 100\r\n\r\n{"))
        #expect(failure?.reason == .connection)
    }

    @Test(arguments: [301, 302, 303, 307, 308])
    func redirectsAreNotFollowed(status: Int) async throws {
        let failure = try await failure(
            of: .answers("HTTP/1.1 \(status) Moved\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n")
        ) { #expect($0.asked.count == 1) }
        #expect(failure?.reason == .status && failure?.status == status)
    }

    @Test func aRetryAfterWithADateIsRead() async throws {
        let failure = try await failure(
            of: .answers(
                "HTTP/1.1 503 Busy\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
                    + "retry-after: Sun, 06 Nov 1994 08:51:37 GMT\r\ncontent-length: 0\r\n\r\n"))
        #expect(failure?.retryAfter == .seconds(120))
    }

    // MARK: TLS

    private static let ok = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"

    @Test func aCertificateOfNobodyThatIsTrustedIsRefused() async throws {
        let failure = try await failure(
            of: .answers(Self.ok), certificate: TestCertificates.localhost, scheme: "https", host: "localhost"
        ) { #expect($0.asked.count == 0, "nothing was sent") }
        #expect(failure?.reason == .connection)
    }

    @Test func anAuthorityOfTheOperatorsIsTrusted() async throws {
        let failure = try await failure(
            of: .answers(Self.ok), connection: .trustingTests(), certificate: TestCertificates.localhost,
            scheme: "https",
            host: "localhost")
        #expect(failure == nil)
    }

    @Test func aCertificateForAnotherHostIsRefused() async throws {
        let failure = try await failure(
            of: .answers(Self.ok), connection: .trustingTests(), certificate: TestCertificates.otherHost,
            scheme: "https",
            host: "localhost"
        ) { #expect($0.asked.count == 0, "nothing was sent") }
        #expect(failure?.reason == .connection)
    }

    @Test func anOldVersionOfTLSIsRefused() async throws {
        let failure = try await failure(
            of: .answers(Self.ok), connection: .trustingTests(), certificate: TestCertificates.localhost,
            newestTLS: .tlsv11,
            scheme: "https", host: "localhost"
        ) { #expect($0.asked.count == 0, "nothing was sent") }
        #expect(failure?.reason == .connection)
    }

    @Test func authoritiesThatCannotBeReadAreAnError() {
        for file in ["/nonexistent/authorities.pem", "/dev/null"] {
            var limits = ConnectionLimits()
            #expect(throws: ModelError.self) { try limits.trust(roots: file) }
        }
    }
}
