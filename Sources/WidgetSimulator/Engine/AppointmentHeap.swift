// SPDX-License-Identifier: Apache-2.0

internal import WidgetModel

/// A radix heap of appointments: the earliest first, those at one time in the order of their owners.
///
/// Virtual time does not run backwards, so appointments are kept by the highest bit in which their times differ from
/// the time of the latest removal. A binary heap compares and moves each of them at some ten places all over its
/// memory.
///
/// An appointment that was superseded stays; its owner knows its present time, as with the work lists.
struct AppointmentHeap {
    typealias Entry = (time: Timestamp, owner: Int32)

    private static let bits = Int64.bitWidth

    /// Entries by the number of low bits in which their times differ from `latest`; bucket 0 has those that are not
    /// later.
    private var buckets = [[Entry]](repeating: [], count: bits + 1)
    /// The earliest time in each bucket.
    private var earliest = [Int64](repeating: .max, count: bits + 1)
    /// A bit for each bucket after bucket 0 that is not empty.
    private var filled: UInt64 = 0
    /// The time by which the entries are distributed.
    private var latest = Int64.min
    /// Whether bucket 0 is in order, with the first entry at its end.
    private var isSorted = true
    /// Memory for the entries that are being distributed.
    private var spare: [Entry] = []

    /// Time of the earliest entry.
    var nextTime: Timestamp? {
        let bucket = firstBucket
        return buckets[bucket].isEmpty ? nil : Timestamp(microseconds: earliest[bucket])
    }

    private var firstBucket: Int { buckets[0].isEmpty ? min(Self.bits, filled.trailingZeroBitCount + 1) : 0 }

    private static func isLater(_ left: Entry, _ right: Entry) -> Bool {
        (left.time.microseconds, left.owner) > (right.time.microseconds, right.owner)
    }

    mutating func push(_ time: Timestamp, _ owner: Int32) { push((time, owner)) }

    private mutating func push(_ entry: Entry) {
        let time = entry.time.microseconds
        var bucket = 0
        if time > latest {
            bucket = Self.bits - (time ^ latest).leadingZeroBitCount
            filled |= 1 << (bucket - 1)
        } else if let last = buckets[0].last, Self.isLater(entry, last) {
            isSorted = false
        }
        buckets[bucket].append(entry)
        earliest[bucket] = min(earliest[bucket], time)
    }

    /// Removes the first entry, if its time is not after `time`.
    mutating func take(through time: Timestamp) -> Entry? {
        guard let next = nextTime, next <= time else { return nil }
        if buckets[0].isEmpty { distribute() }
        if !isSorted { buckets[0].sort(by: Self.isLater) }
        isSorted = true
        let entry = buckets[0].removeLast()
        earliest[0] = buckets[0].last?.time.microseconds ?? .max
        return entry
    }

    /// Distributes the entries of the first bucket that has any to those before it.
    private mutating func distribute() {
        let bucket = firstBucket
        latest = earliest[bucket]
        earliest[bucket] = .max
        filled &= ~(1 << (bucket - 1))
        swap(&spare, &buckets[bucket])
        for entry in spare { push(entry) }
        spare.removeAll(keepingCapacity: true)
    }
}
