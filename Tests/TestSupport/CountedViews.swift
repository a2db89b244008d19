// SPDX-License-Identifier: Apache-2.0

package import WidgetModel

extension ViewStatistics {
    /// The views that count, of views in the order in which they come.
    package static func counted(_ times: some Sequence<Timestamp>, after last: Timestamp?) -> [Timestamp] {
        var last = last
        return times.filter { time in
            guard isCounted(time, after: last) else { return false }
            last = time
            return true
        }
    }
}
