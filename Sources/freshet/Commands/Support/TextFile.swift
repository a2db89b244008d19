import Foundation
import FreshetService

/// Files that commands write.
enum TextFile {
    static func write(_ text: String, to path: String) throws(CommandFailure) {
        do {
            try Data(text.utf8).write(to: URL(filePath: path))
        } catch {
            throw CommandFailure(.failure, "\(path): \(error.localizedDescription)")
        }
    }
}
