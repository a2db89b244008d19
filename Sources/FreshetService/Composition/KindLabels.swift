import Synchronization
import WidgetModel
import WidgetStore

/// Labels of the kinds that have series of their own: the first kinds seen, up to a limit, for the life of the process.
/// All other kinds share one series.
final class KindLabels: Sendable {
    private let directory: DirectoryCache
    private let limit: Int
    private let known = Mutex<[Int32: MetricLabels]>([:])

    init(directory: DirectoryCache, limit: Int) {
        self.directory = directory
        self.limit = limit
    }

    /// Nil until the directory knows the kind.
    func labels(of id: Int32) -> MetricLabels? {
        if let labels = known.withLock({ $0[id] }) { return labels }
        guard let kind = directory.directory().kinds[id] else { return nil }
        return known.withLock { known in
            guard known.count < limit else { return [("app", "other"), ("kind", "other")] }
            let labels = [("app", kind.app), ("kind", kind.definition.name)]
            known[id] = labels
            return labels
        }
    }

    /// Combines the values of each series.
    func series<Value>(
        _ values: [(kindID: Int32, labels: MetricLabels, value: Value)], combining: (Value, Value) -> Value
    ) -> [(labels: MetricLabels, value: Value)] {
        var found: [String: (labels: MetricLabels, value: Value)] = [:]
        for (id, more, value) in values {
            guard let labels = labels(of: id).map({ $0 + more }) else { continue }
            let key = MetricBridge.key(labels)
            found[key] = (labels, found[key].map { combining($0.value, value) } ?? value)
        }
        return Array(found.values)
    }
}
