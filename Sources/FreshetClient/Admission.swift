/// Limit on the number of events under way. Pure.
struct Admission {
    let limit: Int
    private(set) var underWay = 0

    init(limit: Int) {
        self.limit = limit
    }

    /// Admits all events of a call if there is room. A call with more events than the limit is admitted when no others are
    /// under way.
    mutating func admit(_ count: Int) -> Bool {
        guard underWay == 0 || underWay <= limit - count else { return false }
        underWay += count
        return true
    }

    /// Adds events regardless of the limit.
    mutating func add(_ count: Int) {
        underWay += count
    }

    mutating func finish(_ count: Int) {
        underWay -= count
    }
}
