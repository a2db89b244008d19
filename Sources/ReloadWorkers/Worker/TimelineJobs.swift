// SPDX-License-Identifier: Apache-2.0

import WidgetStore

extension RandomAccessCollection<TimelineJob> where Index == Int {
    /// Ranges of neighbours that share an object, such as a list or a kind, so that it is looked up once for each.
    func runs<Shared: AnyObject>(of shared: (TimelineJob) -> Shared) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var start = startIndex
        while start < endIndex {
            let first = shared(self[start])
            var end = start + 1
            while end < endIndex, shared(self[end]) === first { end += 1 }
            ranges.append(start..<end)
            start = end
        }
        return ranges
    }
}

extension [TimelineJob] {
    /// Removes and returns the jobs that match.
    mutating func extract(where matches: (TimelineJob) throws -> Bool) rethrows -> [TimelineJob] {
        if try allSatisfy(matches) {
            // Without a copy of each job: mostly, all of a batch match or none.
            defer { removeAll() }
            return self
        }
        let extracted = try filter(matches)
        if !extracted.isEmpty { try removeAll(where: matches) }
        return extracted
    }
}
