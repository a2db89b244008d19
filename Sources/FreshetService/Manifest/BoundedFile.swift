import Dispatch
import Foundation
import WidgetAPI

package enum BoundedFile {
    /// Error of a file that cannot be read, with its path.
    package struct Unreadable: Error, Sendable, CustomStringConvertible {
        package let message: String

        package var description: String { message }
    }

    /// The text of the file at `path`. Blocks while it reads.
    package static func read(path: String, maximumBytes: Int) throws(Unreadable) -> String {
        let bytes = try bytes(path: path, maximumBytes: maximumBytes)
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Unreadable(message: "the file \(path) is not UTF-8 text")
        }
        return text
    }

    /// The content of the file at `path`. Blocks while it reads.
    package static func bytes(path: String, maximumBytes: Int) throws(Unreadable) -> [UInt8] {
        let bytes: Data?
        do {
            let handle = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
            defer { try? handle.close() }
            bytes = try handle.read(upToCount: maximumBytes + 1)
        } catch {
            throw Unreadable(message: "the file \(path) cannot be read: \(reason(error))")
        }
        let data = bytes ?? Data()
        guard data.count <= maximumBytes else {
            throw Unreadable(message: "the file \(path) is larger than \(maximumBytes) bytes")
        }
        return Array(data)
    }

    /// The content of a JWKS file, read on a thread that may block.
    package static func keys(path: String) async throws -> [UInt8] {
        try await withCheckedThrowingContinuation { continuation in
            DispatchQueue.global().async {
                continuation.resume(with: Result { try bytes(path: path, maximumBytes: TokenKeys.maximumBytes) })
            }
        }
    }

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
