// SPDX-License-Identifier: Apache-2.0

import WidgetModel

/// Search for the parts of a refused batch that the provider answers: halves, and halves of failing halves, down to
/// single timelines.
///
/// If one half is answered, the other is requested only in its halves. The search ends early if both halves and a
/// single timeline fail, so that the failure is everywhere, and at a maximum of requests.
///
/// Pure: it returns the next range of the batch's timelines to request and takes the outcome.
struct Bisection: Sendable {
    enum Cause: Sendable {
        /// The provider may fail for a single timeline.
        case content
        case size
    }

    struct Failed: Sendable {
        let range: Range<Int>
        let failure: ProviderFailure
        /// A single timeline that fails while others of its batch were answered. During the search, whether the content
        /// may have caused the failure.
        var isPoison: Bool
    }

    /// A part, and the other half of the failed range.
    private typealias Part = (range: Range<Int>, sibling: Range<Int>?)

    private let cause: Cause
    private let maximumRequests: Int
    private var pending: [Part] = []
    private var asked: Part?
    /// Failure of the whole batch, and of the pending parts.
    private let failure: ProviderFailure
    /// Largest size that was not refused yet.
    private var largest: Int
    private var isStopped = false
    private(set) var requests = 0
    private(set) var successes = 0
    private var largestSuccess = 0
    private var failedParts: [Failed] = []

    init(count: Int, failure: ProviderFailure, cause: Cause, maximumRequests: Int) {
        (self.cause, self.failure, self.maximumRequests) = (cause, failure, maximumRequests)
        largest = max(1, count / 2)
        pending = halves(0..<count)
    }

    /// The next part to request; nil at the end.
    mutating func next() -> Range<Int>? {
        guard !isStopped, requests < maximumRequests, !pending.isEmpty else { return nil }
        if cause == .content, successes == 0, requests == 2 { takeSample() }
        var part = pending.removeFirst()
        while cause == .size, part.range.count > largest, part.range.count > 1 {
            let halves = halves(part.range)
            pending.insert(contentsOf: halves.dropFirst(), at: 0)
            part = halves[0]
        }
        requests += 1
        asked = part
        return part.range
    }

    mutating func recordSuccess(_ part: Range<Int>) {
        successes += 1
        largestSuccess = max(largestSuccess, part.count)
        // No part is to blame for an answer that is too large.
        guard cause == .content, failure.reason != .tooLarge, let sibling = asked?.sibling, sibling.count > 1,
            let index = pending.firstIndex(where: { $0.range == sibling })
        else { return }
        pending.replaceSubrange(index...index, with: halves(sibling))
    }

    /// Notes the failure of a part.
    ///
    /// - Parameter isSplit: whether a single timeline or the size may be the cause; otherwise the search ends.
    mutating func recordFailure(_ part: Range<Int>, _ failure: ProviderFailure, isSplit: Bool) {
        guard isSplit else {
            failedParts.append(Failed(range: part, failure: failure, isPoison: false))
            isStopped = true
            return
        }
        if part.count > 1 {
            if cause == .size {
                largest = max(1, part.count / 2)
                pending.insert(contentsOf: halves(part), at: 0)
            } else {
                // Breadth first, so that both halves are known before either is split.
                pending += halves(part)
            }
        } else {
            // Sizes do not blame a timeline.
            let isBlamed = failure.reason != .tooLarge && RequestVerdict(failure) != .tooLarge
            failedParts.append(Failed(range: part, failure: failure, isPoison: isBlamed))
        }
        if cause == .content, successes == 0, requests >= 2, !failedParts.isEmpty { isStopped = true }
    }

    /// Ends the search for want of time or budget.
    mutating func stop() {
        isStopped = true
    }

    /// Takes back a part that was not requested.
    mutating func putBack(_ part: Range<Int>) {
        requests -= 1
        pending.insert((part, asked?.sibling), at: 0)
    }

    /// Largest accepted batch size, as far as known.
    var fitting: Int { successes > 0 ? largestSuccess : largest }

    /// Whether nothing was answered, so that no single timeline is to blame.
    var isEverywhere: Bool { successes == 0 }

    var failures: [Failed] {
        failedParts.map { failed in
            var failed = failed
            failed.isPoison = failed.isPoison && cause == .content && successes > 0 && failed.range.count == 1
            return failed
        } + pending.map { Failed(range: $0.range, failure: failure, isPoison: false) }
    }

    /// Requests a single timeline next after both halves failed: a cheap test whether everything fails, or each half
    /// has a poisonous timeline.
    private mutating func takeSample() {
        guard let first = pending.first?.range, first.count > 1 else { return }
        let sample = first.lowerBound..<(first.lowerBound + 1)
        let parts: [Part] = [(sample, nil), (sample.upperBound..<first.upperBound, nil)]
        pending.replaceSubrange(0...0, with: parts)
    }

    /// Splits a failed range. For a possibly poisonous timeline the smaller half goes first, since failures use the
    /// retry budget and may decide about the larger half.
    private func halves(_ range: Range<Int>) -> [Part] {
        guard range.count > 1 else { return [(range, nil)] }
        let middle = range.lowerBound + (range.count + (cause == .size ? 1 : 0)) / 2
        let (left, right) = (range.lowerBound..<middle, middle..<range.upperBound)
        return [(left, right), (right, left)]
    }
}
