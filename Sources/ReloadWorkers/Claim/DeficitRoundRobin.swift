/// Order of turns among keys with work, by deficit round-robin: each visit is worth a quantum, and work beyond it
/// counts against the next visit. Over time every key gets the same amount, whatever its backlog and the size of the
/// pieces.
struct DeficitRoundRobin<Key: Hashable & Comparable>: Sendable where Key: Sendable {
    private var deficits: [Key: Int] = [:]
    private var current: Key?

    /// Forgets keys without work, which start anew without credit.
    mutating func keep(only keys: Set<Key>) {
        deficits = deficits.filter { keys.contains($0.key) }
    }

    /// The next key to serve: the current one while its quantum lasts, then the others in turn. Nil without keys.
    mutating func next(among keys: Set<Key>, quantum: (Key) -> Int) -> Key? {
        if let current, keys.contains(current), deficits[current, default: 0] > 0 { return current }
        let order = keys.sorted()
        guard !order.isEmpty else { return nil }
        var turn = current.flatMap { current in order.firstIndex { $0 > current } } ?? order.startIndex
        // Every visit adds at least one, so the search ends.
        while true {
            let key = order[turn]
            deficits[key, default: 0] += max(1, quantum(key))
            current = key
            if deficits[key, default: 0] > 0 { return key }
            turn = (turn + 1) % order.count
        }
    }

    /// Charges served work to a key.
    mutating func charge(_ key: Key, _ amount: Int) {
        deficits[key, default: 0] -= amount
    }
}
