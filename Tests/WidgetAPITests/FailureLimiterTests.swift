import NIOCore
import Synchronization
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("failed authentications by peer", .tags(.api), .timeLimit(.patience))
struct FailureLimiterTests {
    private final class Clock: Sendable {
        let now = Mutex(Duration.zero)

        func advance(_ time: Duration) { now.withLock { $0 += time } }
    }

    private static func peer(_ number: Int) -> Peer {
        Peer([10, UInt8(number >> 16 & 0xFF), UInt8(number >> 8 & 0xFF), UInt8(number & 0xFF)])
    }

    @Test("so many at once, then one for each that time forgets; others are not held up")
    func rate() {
        let clock = Clock()
        let limiter = FailureLimiter(perMinute: 3) { clock.now.withLock { $0 } }
        let (guesser, other) = (Self.peer(1), Self.peer(2))
        for _ in 0..<3 {
            #expect(limiter.wait(guesser) == nil)
            limiter.failed(guesser)
        }
        #expect(limiter.wait(guesser) == .seconds(20))
        #expect(limiter.wait(other) == nil)
        // What is tried meanwhile makes it no longer.
        limiter.failed(guesser)
        #expect(limiter.wait(guesser) == .seconds(20))
        clock.advance(.seconds(20))
        #expect(limiter.wait(guesser) == nil)
        limiter.failed(guesser)
        #expect(limiter.wait(guesser) != nil)
        clock.advance(.seconds(3_600))
        for _ in 0..<3 {
            #expect(limiter.wait(guesser) == nil)
            limiter.failed(guesser)
        }
        #expect(limiter.wait(guesser) != nil)
    }

    @Test("however many addresses fail, nobody's count is pushed out by them")
    func crowd() {
        let clock = Clock()
        let limiter = FailureLimiter(perMinute: 5, width: 64) { clock.now.withLock { $0 } }
        let guesser = Self.peer(0)
        for _ in 0..<5 { limiter.failed(guesser) }
        for number in 1...10_000 { limiter.failed(Self.peer(number)) }
        #expect(limiter.wait(guesser) != nil)
        // Places are shared by then: time sets all free again.
        clock.advance(.seconds(60))
        #expect(limiter.wait(guesser) == nil && limiter.wait(Self.peer(20_000)) == nil)
    }

    @Test("of IPv6 the network counts; an IPv4 address is the same in either form")
    func peers() throws {
        func peer(_ text: String) throws -> Peer? { Peer(try SocketAddress(ipAddress: text, port: 7)) }
        #expect(try peer("192.0.2.1") == Peer([192, 0, 2, 1]))
        #expect(try peer("::ffff:192.0.2.1") == Peer([192, 0, 2, 1]))
        #expect(try peer("2001:db8:1:2::1") == peer("2001:db8:1:2:ffff::9"))
        #expect(try peer("2001:db8:1:2::1") != peer("2001:db8:1:3::1"))
        #expect(Peer(try SocketAddress(unixDomainSocketPath: "/tmp/s")) == nil)
    }

    @Test("who guesses tokens is told to wait; a token that was let in before still is, from the same address")
    func gate() async throws {
        try await withStore { store in
            let configuration = APIConfiguration(port: 0, failuresPerMinute: 3)
            try await withServedAPI(store, configuration: configuration) { port, tokens in
                func ask(_ bearer: String?) async throws -> String {
                    try await RawConnection.ask(port, "\(TestAPI.base)/kinds", bearer: bearer)
                }
                let known = try await tokens.token()
                #expect(try await ask(known).hasPrefix("HTTP/1.1 200"))
                // Without a token nothing was tried.
                for _ in 0..<5 { #expect(try await ask(nil).hasPrefix("HTTP/1.1 401")) }
                for count in 1...3 { #expect(try await ask("guess-\(count)").hasPrefix("HTTP/1.1 401")) }
                let refused = try await ask("guess-4")
                #expect(refused.hasPrefix("HTTP/1.1 429"), "\(refused)")
                #expect(refused.lowercased().contains("retry-after: "))
                #expect(refused.contains("too many tokens from this address were refused"))
                // Whether a token is a good one is not found out meanwhile.
                #expect(try await ask(try await tokens.token(user: "u1")).hasPrefix("HTTP/1.1 429"))
                #expect(try await ask(known).hasPrefix("HTTP/1.1 200"))
            }
        }
    }
}
