import WidgetModel

/// A sum over the last while, in ten steps: what is older drops out.
struct SlidingSum: Hashable, Sendable {
    private static let steps: Int64 = 10

    private struct Step: Hashable, Sendable {
        let index: Int64
        var value: Int
    }

    private let stepLength: Int64
    /// At most ten, oldest first.
    private var recent: [Step] = []

    init(over window: Duration) {
        stepLength = max(1, window.wholeMicroseconds / Self.steps)
    }

    mutating func add(_ value: Int, at time: Duration) {
        let index = advance(to: time)
        if let last = recent.indices.last, recent[last].index >= index {
            recent[last].value += value
        } else {
            recent.append(Step(index: index, value: value))
        }
    }

    /// Takes off what was added, the newest first, down to nothing.
    mutating func takeBack(_ value: Int, at time: Duration) {
        _ = advance(to: time)
        var left = value
        for step in recent.indices.reversed() where left > 0 {
            let part = min(left, recent[step].value)
            recent[step].value -= part
            left -= part
        }
    }

    func total(at time: Duration) -> Int {
        let oldest = time.wholeMicroseconds / stepLength - Self.steps
        return recent.reduce(0) { $1.index > oldest ? $0 + $1.value : $0 }
    }

    private mutating func advance(to time: Duration) -> Int64 {
        let index = time.wholeMicroseconds / stepLength
        recent.removeAll { $0.index <= index - Self.steps }
        return index
    }
}
