/// How large a provider's batches may be, kind by kind, as far as its refusals tell: what it took when more was too much,
/// and one more for each full batch since.
struct BatchSizeLimits: Hashable, Sendable {
    /// Of kinds whose batches were too large lately.
    private var limits: [Int32: Int] = [:]

    func size(of kind: Int32, atMost maxBatch: Int) -> Int {
        max(1, min(maxBatch, limits[kind] ?? maxBatch))
    }

    /// A request was too large, or its answer was; so many timelines are not, as far as is known.
    mutating func wasTooLarge(fitting count: Int, of kind: Int32) {
        limits[kind] = max(1, min(limits[kind] ?? count, count))
    }

    mutating func succeeded(_ count: Int, of kind: Int32, maxBatch: Int) {
        guard let limit = limits[kind], count >= limit else { return }
        limits[kind] = limit + 1 < maxBatch ? limit + 1 : nil
    }

    var isEmpty: Bool { limits.isEmpty }
}
