import Foundation

/// Shows what happens: redrawn in place on a terminal, a plain line every five seconds elsewhere.
struct DemoScreen {
    private let isTerminal = isatty(STDOUT_FILENO) == 1
    /// Rows that the next frame replaces.
    private var drawn = 0
    private var lastLine: ContinuousClock.Instant?

    mutating func show(_ title: String, _ facts: [(name: String, value: String)]) {
        guard isTerminal else {
            if let lastLine, lastLine.duration(to: .now) < .seconds(5) { return }
            lastLine = .now
            return say("\(title): " + facts.map { "\($0.name) \($0.value)" }.joined(separator: ", "))
        }
        erase()
        print("\n  \(title)")
        for (name, value) in facts { print("  " + name.padding(toLength: 22, withPad: " ", startingAt: 0) + value) }
        drawn = facts.count + 2
        fflush(nil)
    }

    /// A line that stays, above what is redrawn.
    mutating func say(_ text: String) {
        erase()
        print(text)
        fflush(nil)
    }

    private mutating func erase() {
        if drawn > 0 { print("\u{1B}[\(drawn)A\u{1B}[J", terminator: "") }
        drawn = 0
    }
}
