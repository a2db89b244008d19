// SPDX-License-Identifier: Apache-2.0

import Crypto
import JSON
import Logging
import Synchronization
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

/// A clock that changes only when it is set.
private final class SetClock: Sendable {
    private let time: Mutex<Timestamp>

    init(_ time: Timestamp) { self.time = Mutex(time) }

    var now: Timestamp { time.withLock { $0 } }
    func advance(_ duration: Duration) { time.withLock { $0 = $0 + duration } }
}

@Suite("Tokens", .tags(.api), .timeLimit(.patience))
struct TokenVerifierTests {
    private struct Gone: Error, CustomStringConvertible {
        let description = "gone"
    }

    private static let start = Timestamp(rfc3339: "2026-06-01T12:00:00Z") ?? .distantPast

    private struct Bench: Sendable {
        let tokens: TestTokens
        let verifier: TokenVerifier
        let clock: SetClock

        init(rules: TokenRules = TokenRules()) async throws {
            tokens = try await TestTokens.make()
            let keys = tokens.store()
            try await keys.load()
            let clock = SetClock(TokenVerifierTests.start)
            self.clock = clock
            verifier = TokenVerifier(keys: keys, rules: rules, now: { clock.now })
        }

        func issue(
            user: String? = nil, issuer: String? = nil, audience: String? = nil, notBefore: Timestamp? = nil,
            key: String = "hs"
        ) async throws -> String {
            try await tokens.keys.issue(
                app: "a", user: user, scopes: [.reload], subject: "s", issuer: issuer, audience: audience,
                notBefore: notBefore, expiresAt: clock.now + .seconds(60), keyID: key, now: clock.now)
        }

        func refusal(_ token: String) async -> TokenRefusal? {
            do throws(TokenRefusal) {
                _ = try await verifier.principal(token: Array(token.utf8))
                return nil
            } catch {
                return error
            }
        }
    }

    /// Returns an unsigned token with these parts.
    private static func raw(_ header: JSONValue, _ claims: JSONValue, signature: String = "AAAA") -> String {
        "\(String(base64URL: header.encoded)).\(String(base64URL: claims.encoded)).\(signature)"
    }

    @Test("Tokens of every algorithm are verified", arguments: ["hs", "es", "ed"])
    func algorithms(_ key: String) async throws {
        let bench = try await Bench()
        let token = try await bench.issue(user: "u", key: key)
        let principal = try await bench.verifier.principal(token: Array(token.utf8))
        #expect(principal.app == "a" && principal.user == "u" && principal.scopes == [.reload])
        #expect(principal.subject == "s" && principal.tokenID != nil)
        // The cached result is the same.
        #expect(try bench.verifier.known(token: TokenVerifier.token(in: "bearer " + token)) == principal)
        // Changes one bit of the signature or of the signed text.
        var parts = token.split(separator: ".").map(String.init)
        let signature = try #require([UInt8](base64URL: parts[2]))
        for index in [0, signature.count - 1] {
            var broken = signature
            broken[index] ^= 1
            #expect(await bench.refusal("\(parts[0]).\(parts[1]).\(String(base64URL: broken))") == .notTrusted)
        }
        parts[1] = String(base64URL: (["app": "b", "exp": 99_999_999_999] as JSONValue).encoded)
        #expect(await bench.refusal(parts.joined(separator: ".")) == .notTrusted)
    }

    @Test("Times are checked with a leeway of 30 seconds, also for a cached token")
    func times() async throws {
        let bench = try await Bench()
        let token = try await bench.issue(notBefore: Self.start + .seconds(40))
        #expect(await bench.refusal(token) == .notYetValid)
        bench.clock.advance(.seconds(10))
        #expect(await bench.refusal(token) == nil)
        bench.clock.advance(.seconds(79))
        #expect(await bench.refusal(token) == nil)
        bench.clock.advance(.seconds(1))
        #expect(await bench.refusal(token) == .expired)
    }

    @Test("A token needs a signature with the algorithm of its key")
    func confusion() async throws {
        let bench = try await Bench()
        let claims: JSONValue = ["app": "a", "exp": 99_999_999_999, "scope": "operate"]
        for name in ["none", "None", "NONE", "nOnE", "", "RS256", "HS512", "hs256", "ES384"] {
            for signature in ["", "AAAA"] {
                #expect(
                    await bench.refusal(Self.raw(["alg": .string(name), "kid": "hs"], claims, signature: signature))
                        == .notTrusted, "\(name)")
            }
        }
        // A public key used as a secret: signed with the key's bytes, with its ID and without.
        let keys = try #require(bench.tokens.jwks["keys"]?.arrayValue)
        for (id, members) in [("es", ["x", "y"]), ("ed", ["x"])] {
            let key = try #require(keys.first { $0["kid"] == .string(id) })
            var point: [UInt8] = []
            for member in members { point += [UInt8](base64URL: key[member]?.stringValue ?? "") ?? [] }
            for secret in [point, [0x04] + point] where secret.count >= 32 {
                let forged: JSONValue = [
                    "keys": [["kty": "oct", "kid": .string(id), "k": .string(String(base64URL: secret))]]
                ]
                let forger = try await TokenKeys(jwks: forged.encoded)
                let token = try await forger.issue(
                    app: "a", scopes: [.operate], expiresAt: Self.start + .seconds(60))
                #expect(await bench.refusal(token) == .notTrusted)
                let parts = token.split(separator: ".")
                #expect(
                    await bench.refusal(Self.raw(["alg": "HS256"], claims, signature: String(parts[2]))) == .notTrusted)
            }
        }
        // The right key under another key's ID.
        let token = try await bench.issue(key: "es")
        let parts = token.split(separator: ".").map(String.init)
        for header: JSONValue in [
            ["alg": "ES256", "kid": "ed"], ["alg": "EdDSA", "kid": "es"], ["alg": "ES256", "kid": "nobody"],
            ["alg": "HS256", "kid": "es"],
        ] {
            #expect(await bench.refusal("\(String(base64URL: header.encoded)).\(parts[1]).\(parts[2])") == .notTrusted)
        }
    }

    @Test("A malformed token or header is refused before any key is used")
    func malformed() async throws {
        let bench = try await Bench()
        let claims: JSONValue = ["app": "a", "exp": 99_999_999_999]
        for token in [
            "", ".", "..", "a.b", "a.b.c", "a.b.c.d", "e30.e30", "e30.e30.", "e30.e30.AAAA=",
            Self.raw(["alg": "HS256", "kid": 7], claims), Self.raw(["alg": "HS256", "crit": ["exp"]], claims),
            Self.raw(["alg": "HS256", "typ": "logout+jwt"], claims), String(repeating: "a", count: 9_000),
            String(base64URL: Array(#"{"alg":"HS256","alg":"none"}"#.utf8)) + ".e30.AAAA",
        ] {
            let refusal = await bench.refusal(token)
            #expect(refusal == .malformed || refusal == .notTrusted, "\(token)")
        }
        for header in [nil, "", "Bearer", "Bearer ", "Basic dTpw", "Bearer  x", "x"] {
            await #expect(throws: TokenRefusal.self) {
                _ = try await bench.verifier.principal(token: TokenVerifier.token(in: header))
            }
        }
    }

    @Test("Claims must have the right types, without nulls and duplicates; scopes may be an array")
    func claims() async throws {
        let bench = try await Bench()
        let key = SymmetricKey(
            data: [UInt8](base64URL: bench.tokens.jwks["keys"]?.arrayValue?[0]["k"]?.stringValue ?? "") ?? [])
        func signed(_ claims: String) -> String {
            let text = "\(String(base64URL: #"{"alg":"HS256","kid":"hs"}"#.utf8)).\(String(base64URL: claims.utf8))"
            return "\(text).\(String(base64URL: HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key)))"
        }
        let end = 99_999_999_999
        for claims in [
            #"{"app":"a","exp":\#(end),"user":null}"#, #"{"app":"a","exp":\#(end),"user":7}"#,
            #"{"app":"a","exp":\#(end),"app":"b"}"#, #"{"app":"","exp":\#(end)}"#, #"{"app":"a"}"#, #"{"exp":\#(end)}"#,
            #"{"app":"a","exp":-1}"#, #"{"app":"a","exp":1e300}"#, #"{"app":"a","exp":\#(end),"nbf":"x"}"#,
            #"{"app":"a","exp":\#(end),"scope":[7]}"#, #"{"app":"a","exp":\#(end),"aud":null}"#, "[]", "7",
            #"{"app":"a","exp":\#(end),"x":\#(String(repeating: "[", count: 20))"#,
        ] {
            #expect(await bench.refusal(signed(claims)) == .malformed, "\(claims)")
        }
        let token = signed(#"{"app":"a","exp":\#(end),"scope":["reload","mail"],"unknown":1e300}"#)
        #expect(try await bench.verifier.principal(token: Array(token.utf8)).scopes == [.reload])
        // The same bytes encoded differently: the unused bits of the signature's last character.
        let other = token.dropLast() + (token.last == "A" ? "B" : "A")
        #expect(await bench.refusal(String(other)) != nil)
        #expect(await bench.refusal(token + "=") == .malformed)
        // A header with large numbers, on which JWTKit's own header parser traps.
        let header = String(base64URL: #"{"alg":"HS256","kid":"hs","x":1e300}"#.utf8)
        #expect(await bench.refusal("\(header).e30.AAAA") == .notTrusted)
    }

    @Test("Issuer and audience must be the configured ones")
    func parties() async throws {
        let open = try await Bench()
        #expect(await open.refusal(try await open.issue(issuer: "anybody")) == nil)
        #expect(await open.refusal(try await open.issue(audience: "somebody")) == .wrongAudience)
        let bench = try await Bench(rules: TokenRules(issuer: "https://id.example.com", audience: "freshet"))
        #expect(await bench.refusal(try await bench.issue()) == .wrongAudience)
        #expect(await bench.refusal(try await bench.issue(audience: "freshet")) == .wrongAudience)
        #expect(
            await bench.refusal(
                try await bench.issue(issuer: "https://id.example.com", audience: "freshet")) == nil)
    }

    @Test("Keys are replaced when the file changes; a broken file keeps the old ones and is logged once")
    func reload() async throws {
        let first = try await TestTokens.make()
        let second = try await TestTokens.make()
        let file = Mutex<Result<[UInt8], any Error>>(.success(first.jwks.encoded))
        let log = RecordedLog(level: .warning)
        let store = TokenKeyStore(logger: log.logger) {
            try file.withLock { $0 }.get()
        }
        try await store.load()
        let verifier = TokenVerifier(keys: store, rules: TokenRules())
        func isGood(_ tokens: TestTokens) async throws -> Bool {
            let token = try await tokens.token()
            return (try? await verifier.principal(token: Array(token.utf8))) != nil
        }
        let old = try await first.token()
        #expect((try? await verifier.principal(token: Array(old.utf8))) != nil)
        for broken in [#"{"keys": []}"#, "nothing", #"{"keys": [{"kty": "oct", "kid": "x", "k": "c2hvcnQ"}]}"#] {
            file.withLock { $0 = .success(Array(broken.utf8)) }
            await store.check()
            await store.check()
            #expect(try await isGood(first))
        }
        #expect(log.count(of: "cannot be replaced") == 3)
        file.withLock { $0 = .failure(Gone()) }
        await store.check()
        await store.check()
        #expect(log.count(of: "gone") == 1)
        #expect(try await isGood(first))
        file.withLock { $0 = .success(second.jwks.encoded) }
        await store.check()
        #expect(try await isGood(second))
        // The cached token is refused, too.
        #expect((try? await verifier.principal(token: Array(old.utf8))) == nil)
    }

    @Test(
        "Key sets that cannot be used are reported with a pointer",
        arguments: [
            ("[]", "/keys"), ("{}", "/keys"), (#"{"keys":[7]}"#, "/keys/0"), (#"{"keys":[{"kty":"RSA"}]}"#, "/keys"),
            (#"{"keys":[{"kty":"oct"}]}"#, "/keys/0/kid"), (#"{"keys":[{"kty":"oct","kid":"a"}]}"#, "/keys/0/k"),
            (#"{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}"#, "/keys/0/k"),
            (#"{"keys":[{"kty":"EC","crv":"P-256","kid":"a","x":"AAAA","y":"AAAA"}]}"#, "/keys/0/x"),
            (#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a b"}]}"#, "/keys/0/kid"), ("{", ""),
        ])
    func brokenSets(_ text: String, _ pointer: String) async throws {
        do throws(ModelError) {
            _ = try await TokenKeys(jwks: Array(text.utf8))
            Issue.record("\(text) was accepted")
        } catch {
            #expect(error.pointer == pointer, "\(error)")
        }
    }

    @Test("A PEM file as a secret and a duplicate key ID are refused, and keys for other uses are ignored")
    func oddSets() async throws {
        let pem = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n"
        let pasted: JSONValue = ["keys": [["kty": "oct", "kid": "a", "k": .string(String(base64URL: pem.utf8))]]]
        await #expect(throws: ModelError.self) { _ = try await TokenKeys(jwks: pasted.encoded) }
        let key = TokenKeys.makeKey(.eddsa, id: "a")
        let twice: JSONValue = ["keys": [key, TokenKeys.makeKey(.hs256, id: "a")]]
        await #expect(throws: ModelError.self) { _ = try await TokenKeys(jwks: twice.encoded) }
        let mixed: JSONValue = ["keys": [["kty": "RSA", "kid": "r"], key, ["kty": "oct", "kid": "e", "use": "enc"]]]
        let keys = try await TokenKeys(jwks: mixed.encoded)
        #expect(keys.ids == ["a"] && keys.ignored == ["r", "e"])
        let publicKeys = TokenKeys.publicKeys(["keys": [key, TokenKeys.makeKey(.hs256, id: "h")]])
        #expect(publicKeys["keys"]?.arrayValue?.count == 1)
        #expect(publicKeys["keys"]?.arrayValue?.first?["d"] == nil)
    }

    @Test("Base64url has a single encoding")
    func base64() {
        for count in 0..<70 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) }
            #expect([UInt8](base64URL: String(base64URL: bytes)) == bytes)
        }
        for text in ["A", "AAAAA", "AB", "AAB", "AA==", "A+AA", "A/AA", "AA AA", "é"] {
            #expect([UInt8](base64URL: text) == nil, "\(text)")
        }
    }
}

@Suite("Rate limits", .tags(.api))
struct RateLimiterTests {
    /// A clock that the test advances.
    private final class TestClock: Sendable {
        private let time = Mutex(ContinuousClock.now)

        var now: ContinuousClock.Instant { time.withLock { $0 } }
        func advance(_ duration: Duration) { time.withLock { $0 += duration } }
    }

    private let clock = TestClock()

    private func limiter(rate: Double, burst: Int, capacity: Int = 10_000) -> RateLimiter<Int> {
        RateLimiter(rate: rate, burst: burst, capacity: capacity) { [clock] in clock.now }
    }

    @Test("Each subject has a burst, then the rate")
    func rate() throws {
        let limiter = limiter(rate: 10, burst: 3)
        for _ in 0..<3 { #expect(limiter.take(1) == nil) }
        let wait = try #require(limiter.take(1))
        #expect(abs((wait - .milliseconds(100)) / .milliseconds(1)) < 1)
        #expect(limiter.take(2) == nil)
        clock.advance(.milliseconds(100))
        #expect(limiter.take(1) == nil)
        #expect(limiter.take(1) != nil)
        clock.advance(.seconds(3_600))
        for _ in 0..<3 { #expect(limiter.take(1) == nil) }
        #expect(limiter.take(1) != nil)
    }

    @Test("Refused attempts do not prolong the wait")
    func refusedAttempts() throws {
        let limiter = limiter(rate: 0.05, burst: 3)
        for _ in 0..<3 { #expect(limiter.state(1).wait == nil && limiter.take(1) == nil) }
        for _ in 0..<10 { #expect(limiter.take(1) != nil) }
        #expect(limiter.state(1).wait == .seconds(20) && limiter.state(2).wait == nil)
        clock.advance(.seconds(20))
        #expect(limiter.state(1).wait == nil)
    }

    @Test("A request may take more than the bucket holds, and later requests wait longer")
    func more() throws {
        let limiter = limiter(rate: 10, burst: 3)
        #expect(limiter.take(1) == nil && limiter.take(1) == nil)
        #expect(limiter.take(1, 11, least: 0) == nil)
        let owed = try #require(limiter.take(1, 1, least: 0))
        #expect(abs((owed - .seconds(1)) / .milliseconds(1)) < 1)
        let wait = try #require(limiter.take(1))
        #expect(abs((wait - .milliseconds(1_100)) / .milliseconds(1)) < 1)
        clock.advance(.milliseconds(1_200))
        #expect(limiter.take(1) == nil)
    }

    @Test("The number of buckets is bounded, and the most recent ones are kept")
    func bounded() {
        let limiter = limiter(rate: 1, burst: 1, capacity: 100)
        for number in 0..<1_000 {
            clock.advance(.milliseconds(1))
            #expect(limiter.take(number) == nil)
            #expect(limiter.count <= 200)
            if number >= 49 { #expect(limiter.take(number - 49) != nil) }
        }
    }
}
