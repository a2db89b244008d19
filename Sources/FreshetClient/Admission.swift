/// How many events are under way, and whether more may come. Pure.
struct Admission {
    let limit: Int
    private(set) var underWay = 0

    init(limit: Int) {
        self.limit = limit
    }

    /// Takes note of events that come if there is room: all of them or none. A call with more events than the limit is
    /// taken when nothing else is under way, since it would never be otherwise.
    mutating func admit(_ count: Int) -> Bool {
        guard underWay == 0 || underWay <= limit - count else { return false }
        underWay += count
        return true
    }

    /// Takes note of events that come in any case.
    mutating func add(_ count: Int) {
        underWay += count
    }

    mutating func finish(_ count: Int) {
        underWay -= count
    }
}
