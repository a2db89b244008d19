import Testing

@testable import ReloadWorkers

@Suite("Claims are limited while ingest applies a backlog")
struct IngestPrecedenceTests {
    private let precedence = IngestPrecedence()

    @Test("Claims are limited from the first transaction of a backlog until ingest has caught up")
    func limited() {
        #expect(precedence.room(at: .zero) == nil)
        #expect(!precedence.ingestIsBehind(true, at: .seconds(1)))
        #expect(precedence.room(at: .seconds(2)) == IngestPrecedence.room)
        #expect(precedence.ingestIsBehind(false, at: .seconds(3)), "the claim loop is notified")
        #expect(precedence.room(at: .seconds(3)) == nil)
        #expect(!precedence.ingestIsBehind(false, at: .seconds(4)))
    }

    @Test("The limit on claims expires, however long the backlog is")
    func limit() {
        let last = Int(IngestPrecedence.limit / .seconds(1))
        for second in 0...last { _ = precedence.ingestIsBehind(true, at: .seconds(second)) }
        #expect(precedence.room(at: IngestPrecedence.limit - .milliseconds(1)) == IngestPrecedence.room)
        #expect(precedence.room(at: IngestPrecedence.limit) == nil)
        _ = precedence.ingestIsBehind(false, at: .seconds(20))
        _ = precedence.ingestIsBehind(true, at: .seconds(21))
        #expect(precedence.room(at: .seconds(22)) == IngestPrecedence.room, "another backlog")
    }

    @Test("Claims are not limited after ingest has stopped within a backlog")
    func stopped() {
        _ = precedence.ingestIsBehind(true, at: .zero)
        #expect(precedence.room(at: IngestPrecedence.gap - .milliseconds(1)) == IngestPrecedence.room)
        #expect(precedence.room(at: IngestPrecedence.gap) == nil)
    }
}
