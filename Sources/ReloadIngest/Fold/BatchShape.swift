/// What the events of a transaction come to, which tells how they, or those behind them, are best applied.
struct BatchShape: Equatable, Sendable {
    /// Rows of input of the marks, for each event: 1 where requests of one kind do not fold. Requests of several kinds count
    /// several times, and what is no targeted request counts as folded.
    private(set) var marksShare = 1.0

    /// With fewer marks than this for an event, one transaction for all has the least to write.
    private static let leastShare = 0.5

    /// Of nothing yet.
    init() {}

    init(_ fold: BatchFold) {
        self.init(marks: fold.markCount, events: Int(fold.eventCount))
    }

    init(marks: Int, events: Int) {
        if events > 0 { marksShare = Double(marks) / Double(events) }
    }

    /// Whether it is worth while to apply it in parts beside each other.
    var isDivisible: Bool { marksShare >= Self.leastShare }
}
