/// Finds out which parts of a batch a provider answers, after it refused the whole: halves, and halves of those that
/// fail, down to single timelines.
///
/// It ends early when it would only multiply the load: when both halves fail, so that the failure is everywhere, and when
/// so many requests have been made.
///
/// Pure: it says what to ask for, and is told what came of it. Ranges are of the batch's timelines.
struct Bisection: Sendable {
    enum Cause: Sendable {
        /// One timeline may be what the provider fails for.
        case content
        /// The batch is too large.
        case size
    }

    /// A part that got no answer.
    struct Failed: Sendable {
        let range: Range<Int>
        let failure: ProviderFailure
        /// A single timeline that fails while others of its batch were answered.
        let isPoison: Bool
    }

    private let cause: Cause
    private let maximumRequests: Int
    private var pending: [Range<Int>]
    /// Of the parts that are still pending, what the whole failed with.
    private let failure: ProviderFailure
    /// Parts larger than this have been refused.
    private var largest: Int
    private var isStopped = false
    private(set) var requests = 0
    private(set) var successes = 0
    private var largestSuccess = 0
    private var settled: [(range: Range<Int>, failure: ProviderFailure)] = []

    /// - Parameters:
    ///   - count: timelines of the batch; at least two.
    ///   - failure: that of the whole.
    init(count: Int, failure: ProviderFailure, cause: Cause, maximumRequests: Int) {
        self.cause = cause
        self.failure = failure
        self.maximumRequests = maximumRequests
        largest = max(1, count / 2)
        pending = Self.halves(0..<count)
    }

    /// The next part to ask for; nil when there is none, or no more is to be asked.
    mutating func next() -> Range<Int>? {
        guard !isStopped, requests < maximumRequests, !pending.isEmpty else { return nil }
        var part = pending.removeFirst()
        while cause == .size, part.count > largest, part.count > 1 {
            let halves = Self.halves(part)
            pending.insert(contentsOf: halves.dropFirst(), at: 0)
            part = halves[0]
        }
        requests += 1
        return part
    }

    mutating func succeeded(_ part: Range<Int>) {
        successes += 1
        largestSuccess = max(largestSuccess, part.count)
    }

    /// - Parameter isSplit: the part's failure may be that of one of its timelines, or of their number; otherwise it says
    ///   that nothing more is to be asked.
    mutating func failed(_ part: Range<Int>, _ failure: ProviderFailure, isSplit: Bool) {
        guard isSplit else {
            settled.append((part, failure))
            isStopped = true
            return
        }
        if part.count > 1 {
            if cause == .size {
                largest = max(1, part.count / 2)
                pending.insert(contentsOf: Self.halves(part), at: 0)
            } else {
                // What is left is asked for breadth first, so that both halves are known before either is split.
                pending += Self.halves(part)
            }
        } else {
            settled.append((part, failure))
        }
        if cause == .content, successes == 0, requests >= 2 { isStopped = true }
    }

    /// No more is to be asked: the time is over, or the budget.
    mutating func stop() {
        isStopped = true
    }

    /// Takes a part back that was not asked for after all.
    mutating func putBack(_ part: Range<Int>) {
        requests -= 1
        pending.insert(part, at: 0)
    }

    /// How many timelines are not too many at a time, as far as was found out.
    var fitting: Int { successes > 0 ? largestSuccess : largest }

    /// Nothing was answered: it is not one timeline's fault.
    var isEverywhere: Bool { successes == 0 }

    /// What got no answer, with why.
    var failures: [Failed] {
        settled.map { part in
            Failed(
                range: part.range, failure: part.failure,
                isPoison: cause == .content && successes > 0 && part.range.count == 1 && isBlamed(part.failure))
        } + pending.map { Failed(range: $0, failure: failure, isPoison: false) }
    }

    private func isBlamed(_ failure: ProviderFailure) -> Bool {
        // An answer that is too large says so itself.
        failure.reason != .tooLarge && RequestVerdict(failure) == .blamesContent
    }

    private static func halves(_ range: Range<Int>) -> [Range<Int>] {
        guard range.count > 1 else { return [range] }
        let middle = range.lowerBound + (range.count + 1) / 2
        return [range.lowerBound..<middle, middle..<range.upperBound]
    }
}
