/// Finds out which parts of a batch a provider answers, after it refused the whole: halves, and halves of those that
/// fail, down to single timelines.
///
/// A half that is answered blames the other, which is then asked for only in its halves. It ends early when it would only
/// multiply the load: when both halves fail and so does a single timeline, so that the failure is everywhere, and when so
/// many requests have been made.
///
/// Pure: it says what to ask for, and is told what came of it. Ranges are of the batch's timelines.
struct Bisection: Sendable {
    enum Cause: Sendable {
        /// One timeline may be what the provider fails for.
        case content
        case size
    }

    struct Failed: Sendable {
        let range: Range<Int>
        let failure: ProviderFailure
        /// A single timeline that fails while others of its batch were answered.
        let isPoison: Bool
    }

    private struct Part: Sendable {
        let range: Range<Int>
        /// The other half of what failed.
        var sibling: Range<Int>?
    }

    private struct Settled: Sendable {
        let range: Range<Int>
        let failure: ProviderFailure
        /// Whether the content may have caused the failure.
        let isBlamed: Bool
    }

    private let cause: Cause
    private let maximumRequests: Int
    private var pending: [Part] = []
    private var asked: Part?
    /// Of the parts that are still pending, what the whole failed with.
    private let failure: ProviderFailure
    /// Parts larger than this have been refused.
    private var largest: Int
    private var isStopped = false
    private(set) var requests = 0
    private(set) var successes = 0
    private var largestSuccess = 0
    private var settled: [Settled] = []

    init(count: Int, failure: ProviderFailure, cause: Cause, maximumRequests: Int) {
        self.cause = cause
        self.failure = failure
        self.maximumRequests = maximumRequests
        largest = max(1, count / 2)
        pending = halves(0..<count)
    }

    /// The next part to ask for; nil when there is none, or no more is to be asked.
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

    mutating func succeeded(_ part: Range<Int>) {
        successes += 1
        largestSuccess = max(largestSuccess, part.count)
        // The whole of an answer that is too large is no part's fault.
        guard cause == .content, failure.reason != .tooLarge, let sibling = asked?.sibling, sibling.count > 1,
            let index = pending.firstIndex(where: { $0.range == sibling })
        else { return }
        pending.replaceSubrange(index...index, with: halves(sibling))
    }

    /// - Parameter isSplit: the part's failure may be that of one of its timelines, or of their number; otherwise it says
    ///   that nothing more is to be asked.
    mutating func failed(_ part: Range<Int>, _ failure: ProviderFailure, isSplit: Bool) {
        guard isSplit else {
            settled.append(Settled(range: part, failure: failure, isBlamed: false))
            isStopped = true
            return
        }
        if part.count > 1 {
            if cause == .size {
                largest = max(1, part.count / 2)
                pending.insert(contentsOf: halves(part), at: 0)
            } else {
                // The rest is asked breadth first, so that both halves are known before either is split.
                pending += halves(part)
            }
        } else {
            // An answer or batch that is too large has its own reason.
            let isBlamed = failure.reason != .tooLarge && RequestVerdict(failure) != .tooLarge
            settled.append(Settled(range: part, failure: failure, isBlamed: isBlamed))
        }
        if cause == .content, successes == 0, requests >= 2, !settled.isEmpty { isStopped = true }
    }

    /// No more is to be asked: the time is over, or the budget.
    mutating func stop() {
        isStopped = true
    }

    /// Takes a part back that was not asked for after all.
    mutating func putBack(_ part: Range<Int>) {
        requests -= 1
        pending.insert(Part(range: part, sibling: asked?.sibling), at: 0)
    }

    /// How many timelines are not too many at a time, as far as was found out.
    var fitting: Int { successes > 0 ? largestSuccess : largest }

    /// Nothing was answered: it is not one timeline's fault.
    var isEverywhere: Bool { successes == 0 }

    var failures: [Failed] {
        settled.map { part in
            Failed(
                range: part.range, failure: part.failure,
                isPoison: cause == .content && successes > 0 && part.range.count == 1 && part.isBlamed)
        } + pending.map { Failed(range: $0.range, failure: failure, isPoison: false) }
    }

    /// Both halves fail: a single timeline tells, for next to nothing, whether everything does, or each half has a
    /// poisonous timeline of its own.
    private mutating func takeSample() {
        guard let first = pending.first?.range, first.count > 1 else { return }
        let sample = first.lowerBound..<(first.lowerBound + 1)
        pending.replaceSubrange(
            0...0, with: [Part(range: sample), Part(range: sample.upperBound..<first.upperBound)])
    }

    /// Splits a range that failed. If a single timeline may be the cause, the smaller half goes first: only halves that fail
    /// use the retry budget, and the larger one may be settled by then.
    private func halves(_ range: Range<Int>) -> [Part] {
        guard range.count > 1 else { return [Part(range: range)] }
        let middle = range.lowerBound + (range.count + (cause == .size ? 1 : 0)) / 2
        let (left, right) = (range.lowerBound..<middle, middle..<range.upperBound)
        return [Part(range: left, sibling: right), Part(range: right, sibling: left)]
    }
}
