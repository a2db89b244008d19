// SPDX-License-Identifier: Apache-2.0

import Testing

@testable import ReloadWorkers

@Suite("Claims wait while ingest applies a backlog")
struct IngestPrecedenceTests {
    private let precedence = IngestPrecedence()

    @Test("Claims wait from the first transaction of a backlog until ingest has caught up")
    func wait() {
        #expect(!precedence.holdsClaims(at: .zero))
        #expect(!precedence.ingestIsBehind(true, at: .seconds(1)))
        #expect(precedence.holdsClaims(at: .seconds(2)))
        #expect(precedence.ingestIsBehind(false, at: .seconds(3)), "the claim loop is notified")
        #expect(!precedence.holdsClaims(at: .seconds(3)))
        #expect(!precedence.ingestIsBehind(false, at: .seconds(4)))
    }

    @Test("Claims go on after some time, however long the backlog is")
    func limit() {
        let last = Int(IngestPrecedence.limit / .seconds(1))
        for second in 0...last { _ = precedence.ingestIsBehind(true, at: .seconds(second)) }
        #expect(precedence.holdsClaims(at: IngestPrecedence.limit - .milliseconds(1)))
        #expect(!precedence.holdsClaims(at: IngestPrecedence.limit))
        _ = precedence.ingestIsBehind(false, at: .seconds(20))
        _ = precedence.ingestIsBehind(true, at: .seconds(21))
        #expect(precedence.holdsClaims(at: .seconds(22)), "another backlog")
    }

    @Test("Between two backlogs there is time for claims")
    func pause() {
        _ = precedence.ingestIsBehind(true, at: .zero)
        _ = precedence.ingestIsBehind(false, at: .seconds(1))
        let end = Duration.seconds(1) + IngestPrecedence.respite
        _ = precedence.ingestIsBehind(true, at: end - .milliseconds(1))
        #expect(!precedence.holdsClaims(at: end))
        _ = precedence.ingestIsBehind(true, at: end)
        #expect(precedence.holdsClaims(at: end))
    }

    @Test("Claims do not wait for ingest that has stopped within a backlog")
    func stopped() {
        _ = precedence.ingestIsBehind(true, at: .zero)
        #expect(precedence.holdsClaims(at: IngestPrecedence.gap - .milliseconds(1)))
        #expect(!precedence.holdsClaims(at: IngestPrecedence.gap))
    }
}
