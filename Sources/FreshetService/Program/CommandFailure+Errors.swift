import ArgumentParser
import KafkaClient
import PostgresClient
import WidgetStore

extension CommandFailure {
    /// The failure for an error; nil for errors that the argument parser reports.
    init?(explaining error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as SettingsError:
            self.init(.configuration, "the settings cannot be used:\n\(error)", problems: error.problems.map(\.json))
        case let error as ManifestError:
            self.init(.failure, "the manifest cannot be used:\n\(error)", problems: error.problems.map(\.json))
        case let error as KindConflict: self.init(.failure, "\(error)")
        case let error as PostgresError: self.init(error)
        case let error as KafkaError: self.init(error)
        case let error as BoundedFile.Unreadable: self.init(.failure, error.message)
        case is CancellationError: self.init(.failure, "interrupted")
        case is ExitCode, is ValidationError, is CleanExit: return nil
        default:
            // The parser's own errors are not public.
            guard SettingsOptions.exitCode(for: error) == .failure else { return nil }
            self.init(.failure, "\(error)")
        }
    }

    private init(_ error: PostgresError) {
        let advice = error.hint.map { "; \($0)" } ?? ""
        switch error.kind {
        case .configuration: self.init(.configuration, "postgres.url: \(error.message)\(advice)")
        case .connection, .poolTimeout:
            self.init(.unavailable, "PostgreSQL cannot be reached (postgres.url): \(error.message)")
        case .migration: self.init(.configuration, error.message + advice)
        case .server where error.isRetriable && error.sqlState?.hasPrefix("57P") == true:
            self.init(.unavailable, "PostgreSQL does not take connections: \(error.message)")
        default: self.init(.failure, "\(error)")
        }
    }

    private init(_ error: KafkaError) {
        switch error.code {
        case .invalidConfiguration: self.init(.configuration, "kafka.properties: \(error.message)")
        case .messageTimedOut, .timedOut:
            self.init(.unavailable, "Kafka cannot be reached (kafka.bootstrapServers): \(error)")
        default: self.init(error.isRetriable ? .unavailable : .failure, "\(error)")
        }
    }
}
