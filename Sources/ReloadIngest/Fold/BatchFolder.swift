import WidgetStore

/// Folds a batch, one transaction's worth after the other, by the kinds as they are known.
struct BatchFolder: Sendable {
    /// The first of some items that one transaction applies.
    struct Folded: Sendable {
        fileprivate let items: [Int32]
        let fold: BatchFold
        /// How many of them.
        let count: Int
    }

    private struct Known: Sendable {
        let directory: KindDirectory
        /// It was read after the batch had come, so a name that is not in it is nobody's.
        let isCurrent: Bool
    }

    private let configuration: IngestConfiguration
    private let directory: DirectoryCache
    private let flow: IngestFlow
    private var known: Known?

    init(configuration: IngestConfiguration, directory: DirectoryCache, flow: IngestFlow) {
        self.configuration = configuration
        self.directory = directory
        self.flow = flow
    }

    /// Has the kinds read again if need be. To be called whenever something may take long: they may be retired or changed
    /// meanwhile.
    mutating func forget() { known = nil }

    /// Folds the next items.
    ///
    /// - Parameter ahead: what ``ahead(_:of:)`` made while those before were applied.
    /// - Throws: `PostgresError`, when the kinds cannot be read.
    mutating func next(_ items: [Int32], of batch: PreparedBatch, ahead: Folded?) async throws -> Folded {
        var known: Known
        if let earlier = self.known {
            known = earlier
        } else {
            known = Known(
                directory: try await directory.directory(maximumAge: configuration.directoryAge), isCurrent: false)
        }
        var folded: Folded
        if let ahead, ahead.items == items {
            folded = ahead
        } else {
            folded = fold(items, of: batch, by: known)
        }
        if folded.fold.hasUnknownNames && !known.isCurrent {
            known = Known(directory: try await directory.refresh(), isCurrent: true)
            folded = fold(items, of: batch, by: known)
        }
        self.known = known
        return folded
    }

    /// Folds what comes behind those at hand, while the database is busy with them; nil when there is nothing more.
    func ahead(_ items: [Int32], of batch: PreparedBatch) -> Folded? {
        guard let known, !items.isEmpty else { return nil }
        return fold(items, of: batch, by: known)
    }

    private func fold(_ items: [Int32], of batch: PreparedBatch, by known: Known) -> Folded {
        let (fold, count) = batch.fold(items, known.directory, flow.divertedApps, limit: configuration.maximumMarks)
        return Folded(items: items, fold: fold, count: count)
    }
}
