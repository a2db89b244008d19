import PostgresClient
import WidgetStore

/// What to do about a batch that the database did not take.
enum ApplyFailure: Equatable {
    /// Another process has taken some of the partitions: find out which.
    case fenced
    /// Other apps are diverted than was believed: find out which.
    case diversionsChanged
    /// Ingest is halted, until an operator lets it go on.
    case halted
    /// The directory of kinds is behind what is stored: read it and try again.
    case directoryIsBehind
    /// The data of an event is to blame: find it by halving the batch, and make it a dead letter.
    case poison(String)
    /// The batch is more than the database does within its limits: halve it, and try again with back-off.
    case tooMuch(String)
    /// Nothing is wrong with the batch: try again with back-off, as long as it takes.
    case wait(String)
    /// The task was cancelled.
    case stopped

    init(_ error: any Error) {
        switch error {
        case is CancellationError:
            self = .stopped
        case is LifecycleFoldError:
            self = .directoryIsBehind
        case let error as PostgresError where error.kind == .cancelled:
            self = .stopped
        case let error as PostgresError where error.sqlState == AdvancePositions.fencedState:
            self = .fenced
        case let error as PostgresError where error.sqlState == RequireFlow.diversionsState:
            self = .diversionsChanged
        case let error as PostgresError where error.sqlState == RequireFlow.haltedState:
            self = .halted
        case let error as PostgresError where error.blamesData:
            self = .poison("\(error)")
        case let error as PostgresError where error.asksForLess:
            self = .tooMuch("\(error)")
        default:
            self = .wait("\(error)")
        }
    }
}
