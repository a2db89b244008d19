import PostgresClient
import WidgetStore

/// Class of a failure to apply a batch.
enum ApplyFailure: Equatable {
    /// Another process has taken some of the partitions.
    case fenced
    /// The set of diverted apps has changed.
    case diversionsChanged
    /// Ingest is halted.
    case halted
    /// The directory of kinds is older than the stored widgets.
    case directoryIsBehind
    /// The database refuses the data of an event. Halving the batch finds the event.
    case poison(String)
    /// The batch exceeds a limit of the database and must be halved.
    case tooMuch(String)
    /// A transient failure that the batch does not cause.
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
        case let error as PostgresError where error.sqlState == StoreState.fenced:
            self = .fenced
        case let error as PostgresError where error.sqlState == StoreState.otherDiversions:
            self = .diversionsChanged
        case let error as PostgresError where error.sqlState == StoreState.halted:
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
