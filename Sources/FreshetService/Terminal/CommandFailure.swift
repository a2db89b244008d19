// SPDX-License-Identifier: Apache-2.0

import Dispatch
import Foundation
package import JSON
package import WidgetAPI
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

extension String {
    /// Reads the text of the file at `path`. Blocks while it reads.
    package init(file path: String, maximumBytes: Int) throws(CommandFailure) {
        let bytes = try [UInt8](file: path, maximumBytes: maximumBytes)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure(.failure, "the file \(path) is not UTF-8 text")
        }
        self = text
    }

    /// Writes the text to a file.
    package func save(to path: String) throws(CommandFailure) {
        do {
            try Data(utf8).write(to: URL(filePath: path))
        } catch {
            throw CommandFailure(.failure, "\(path): \(error.localizedDescription)")
        }
    }
}

extension [UInt8] {
    /// Reads the content of the file at `path`. Blocks while it reads.
    package init(file path: String, maximumBytes: Int) throws(CommandFailure) {
        let data: Data
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? handle.close() }
            data = try handle.read(upToCount: maximumBytes + 1) ?? Data()
        } catch {
            throw CommandFailure(.failure, "the file \(path) cannot be read: \(CommandFailure.reason(error))")
        }
        guard data.count <= maximumBytes else {
            throw CommandFailure(.failure, "the file \(path) is larger than \(maximumBytes) bytes")
        }
        self.init(data)
    }
}

extension TokenKeyStore {
    /// Reads the keys for the first time.
    ///
    /// - Parameter source: the file or the setting that names it, for the message.
    package func load(from source: String) async throws(CommandFailure) {
        do {
            try await load()
        } catch {
            throw CommandFailure(.configuration, "\(source): \(error)")
        }
    }
}

extension TokenKeys {
    /// The content of a JWKS file, read on a thread that may block.
    package static func read(_ path: String) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try [UInt8](file: path, maximumBytes: maximumBytes) })
            }
        }
    }
}

extension CommandFailure {
    /// Reason of an error of Foundation's files, without a path.
    package static func reason(_ error: any Error) -> String {
        switch (error as? CocoaError)?.code {
        case .fileNoSuchFile?, .fileReadNoSuchFile?: return "there is no such file"
        case .fileReadNoPermission?: return "permission denied"
        default: break
        }
        let underlying = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError
        return underlying?.localizedDescription ?? error.localizedDescription
    }
}
