package import JSON
import WidgetModel

/// Exit statuses of failed commands, as in `sysexits.h`.
package enum CommandStatus: Int32, Sendable {
    /// The command failed, or completed only in part.
    case failure = 1
    /// The command line is wrong.
    case usage = 64
    /// Kafka or PostgreSQL cannot be reached.
    case unavailable = 69
    /// The settings are wrong, or the database does not have this binary's migrations.
    case configuration = 78
}

/// Error of a command, with a message for people.
package struct CommandFailure: Error, Sendable, CustomStringConvertible {
    package let status: CommandStatus
    /// One line per problem.
    package let message: String
    /// The problems for programs, if there can be several.
    package let problems: [JSONValue]

    package init(_ status: CommandStatus, _ message: String, problems: [JSONValue] = []) {
        self.status = status
        self.message = message
        self.problems = problems
    }

    package var description: String { message }

    /// The error of a command with `--json`.
    package var json: JSONValue {
        [
            "error": .string("\(status)"), "status": .count(status.rawValue),
            "message": .string(message), "problems": .array(problems),
        ]
    }
}
