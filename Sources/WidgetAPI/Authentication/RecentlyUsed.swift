/// Values of recently used keys, in bounded memory: at least the last `limit` keys, and at most twice as many.
struct RecentlyUsed<Key: Hashable, Value> {
    let limit: Int
    private var young: [Key: Value] = [:]
    private var old: [Key: Value] = [:]

    init(limit: Int) { self.limit = limit }

    var count: Int { young.count + old.count }

    /// The value of a key, without a use of the key.
    func peek(_ key: Key) -> Value? { young[key] ?? old[key] }

    subscript(key: Key) -> Value? {
        mutating get {
            if let value = young[key] { return value }
            guard let value = old[key] else { return nil }
            self[key] = value
            return value
        }
        set {
            old[key] = nil
            if young.count >= limit, young[key] == nil {
                old = young
                young = [:]
            }
            young[key] = newValue
        }
    }
}
