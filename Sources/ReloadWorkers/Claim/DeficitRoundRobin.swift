/// Order of turns among keys that have work, by deficit round-robin: each visit is worth a quantum, and work taken beyond
/// it counts against the next visit.
///
/// Over time every key gets the same amount, however much work it has and however coarse the pieces are.
struct DeficitRoundRobin<Key: Hashable & Comparable>: Sendable where Key: Sendable {
    private var deficits: [Key: Int] = [:]
    private var current: Key?

    /// Forgets those that have no work: whoever comes back starts anew, without credit for the time away.
    mutating func keep(only keys: Set<Key>) {
        deficits = deficits.filter { keys.contains($0.key) }
    }

    /// The one to serve next: the current one while its quantum lasts, then the others in turn. Nil when `keys` is
    /// empty.
    mutating func next(among keys: Set<Key>, quantum: (Key) -> Int) -> Key? {
        if let current, keys.contains(current), deficits[current, default: 0] > 0 { return current }
        let order = keys.sorted()
        guard !order.isEmpty else { return nil }
        var turn = current.flatMap { current in order.firstIndex { $0 > current } } ?? order.startIndex
        // Every visit pays back at least one, so an overdraft delays a turn but never ends the search.
        while true {
            let key = order[turn]
            deficits[key, default: 0] += max(1, quantum(key))
            current = key
            if deficits[key, default: 0] > 0 { return key }
            turn = (turn + 1) % order.count
        }
    }

    /// Takes what was served off the turn.
    mutating func charge(_ key: Key, _ amount: Int) {
        deficits[key, default: 0] -= amount
    }
}
