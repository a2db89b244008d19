package import WidgetModel

/// The rules of the SQL function `count_views`.
extension ViewStatistics {
    /// Which views count, in the order in which they come: those at least ``interval`` after the last counted one. What is
    /// skipped writes nothing.
    package static func counted(_ times: some Sequence<Timestamp>, after last: Timestamp?) -> [Timestamp] {
        var last = last
        return times.filter { time in
            if let last, time - last < interval { return false }
            last = time
            return true
        }
    }

    /// A widget's average after a counted view.
    ///
    /// - Parameter elapsed: since the last counted one; nil for the first.
    package static func rate(_ rate: Double, viewedAfter elapsed: Duration?) -> Double {
        1 / (timeConstant / 86_400) + decayed(rate, for: elapsed ?? .zero)
    }
}
