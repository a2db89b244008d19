import WidgetStore

/// Folds a batch in parts for one transaction each.
struct BatchFolder: Sendable {
    /// A fold of the first items, for one transaction.
    struct Folded: Sendable {
        fileprivate let items: [Int32]
        let fold: BatchFold
        /// Number of items in the fold.
        let count: Int
    }

    private struct Known: Sendable {
        let directory: KindDirectory
        /// Whether it was read after the batch was polled, so that missing names do not exist.
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

    /// Has the kinds read again. Called before waits, during which kinds may be retired or changed.
    mutating func forget() { known = nil }

    /// Folds the next items.
    ///
    /// - Parameter ahead: result of ``ahead(_:of:)`` during the previous transaction.
    /// - Throws: `PostgresError` if the kinds cannot be read.
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

    /// Folds the items behind the current transaction while the database is busy with that; nil for no items.
    func ahead(_ items: [Int32], of batch: PreparedBatch) -> Folded? {
        guard let known, !items.isEmpty else { return nil }
        return fold(items, of: batch, by: known)
    }

    private func fold(_ items: [Int32], of batch: PreparedBatch, by known: Known) -> Folded {
        let (fold, count) = batch.fold(items, known.directory, flow.divertedApps, limit: configuration.maximumMarks)
        return Folded(items: items, fold: fold, count: count)
    }
}
