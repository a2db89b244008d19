import Dispatch
import WidgetAPI

package enum TokenKeyFile {
    /// Reads it on a thread that may block.
    package static func read(path: String) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(
                    with: Result { Array(try BoundedFile.read(path: path, maximumBytes: TokenKeys.maximumBytes).utf8) })
            }
        }
    }
}
