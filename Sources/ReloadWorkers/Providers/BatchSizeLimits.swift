/// Largest batch that a provider takes, as far as its refusals tell: the size that it took when more was too much, and one
/// more for each full batch since.
struct BatchSizeLimits: Hashable, Sendable {
    /// nil: no batch was too large lately.
    private var limit: Int?

    /// A limit of this size is no limit.
    private static let forgottenAt = 10_000

    func size(atMost maxBatch: Int) -> Int { max(1, min(maxBatch, limit ?? maxBatch)) }

    /// A request was too large, or its answer was; so many timelines are not, as far as is known.
    mutating func wasTooLarge(fitting count: Int) { limit = max(1, min(limit ?? count, count)) }

    mutating func succeeded(_ count: Int) {
        guard let known = limit, count >= known else { return }
        limit = known + 1 < Self.forgottenAt ? known + 1 : nil
    }

    var isEmpty: Bool { limit == nil }
}
