import Dispatch
import Foundation
import FreshetService

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// The lines of a file or of standard input, read on demand on a thread of their own, since reading a pipe or terminal
/// blocks.
struct LineReader: AsyncSequence, Sendable {
    /// A line without its end.
    struct Line: Sendable, Equatable {
        /// Number, from 1.
        let number: Int
        /// Nil if the line is longer than allowed and was skipped.
        let bytes: [UInt8]?
    }

    struct Unreadable: Error, CustomStringConvertible {
        let description: String
    }

    private let handle: FileHandle
    private let name: String
    private let maximumBytes: Int

    /// - Parameter maximumBytes: longest line; longer ones are skipped.
    init(_ handle: FileHandle, name: String, maximumBytes: Int) {
        self.handle = handle
        self.name = name
        self.maximumBytes = maximumBytes
    }

    /// Opens a file; `-` is standard input.
    static func open(_ path: String, maximumBytes: Int) throws(CommandFailure) -> LineReader {
        if path == "-" {
            return LineReader(.standardInput, name: "standard input", maximumBytes: maximumBytes)
        }
        guard let handle = FileHandle(forReadingAtPath: path) else {
            throw CommandFailure(.failure, "the file \(path) cannot be opened: \(String(cString: strerror(errno)))")
        }
        return LineReader(handle, name: path, maximumBytes: maximumBytes)
    }

    func makeAsyncIterator() -> Iterator {
        Iterator(handle: handle, name: name, maximumBytes: maximumBytes)
    }

    struct Iterator: AsyncIteratorProtocol {
        private static let chunk = 1 << 16

        private let handle: FileHandle
        private let name: String
        private let maximumBytes: Int
        private let queue = DispatchQueue(label: "freshet.lines")
        private var buffer: [UInt8] = []
        /// Index of the next line in `buffer`.
        private var start = 0
        /// End of the searched part of `buffer`.
        private var searched = 0
        private var number = 0
        private var isAtEnd = false
        /// Whether a line that is too long is being skipped.
        private var isPassingOver = false

        fileprivate init(handle: FileHandle, name: String, maximumBytes: Int) {
            self.handle = handle
            self.name = name
            self.maximumBytes = maximumBytes
        }

        mutating func next() async throws(Unreadable) -> Line? {
            while true {
                if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                    return take(upTo: end, next: end + 1)
                }
                searched = buffer.count
                if isAtEnd {
                    return start < buffer.count || isPassingOver ? take(upTo: buffer.count, next: buffer.count) : nil
                }
                if buffer.count - start > maximumBytes + 1 {
                    isPassingOver = true
                    start = buffer.count
                }
                buffer.removeFirst(start)
                searched -= start
                start = 0
                let chunk = try await read()
                isAtEnd = chunk.isEmpty
                buffer += chunk
            }
        }

        private mutating func take(upTo end: Int, next: Int) -> Line {
            defer {
                start = next
                searched = next
                isPassingOver = false
            }
            number += 1
            var line = buffer[start..<end]
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            guard !isPassingOver, line.count <= maximumBytes else { return Line(number: number, bytes: nil) }
            return Line(number: number, bytes: Array(line))
        }

        private func read() async throws(Unreadable) -> [UInt8] {
            let handle = handle
            let outcome: Result<[UInt8], Unreadable> = await withCheckedContinuation { continuation in
                queue.async { [name] in
                    continuation.resume(returning: Self.read(handle.fileDescriptor, name))
                }
            }
            return try outcome.get()
        }

        private static func read(_ descriptor: Int32, _ name: String) -> Result<[UInt8], Unreadable> {
            while true {
                var failure: Int32 = 0
                let bytes = [UInt8](unsafeUninitializedCapacity: chunk) { buffer, count in
                    let result = systemRead(descriptor, buffer.baseAddress, chunk)
                    if result < 0 { failure = errno }
                    count = result > 0 ? result : 0
                }
                if failure == 0 { return .success(bytes) }
                if failure != EINTR {
                    return .failure(
                        Unreadable(description: "\(name) cannot be read: \(String(cString: strerror(failure)))"))
                }
            }
        }

        private static func systemRead(_ descriptor: Int32, _ address: UnsafeMutableRawPointer?, _ count: Int) -> Int {
            #if canImport(Darwin)
            Darwin.read(descriptor, address, count)
            #else
            Glibc.read(descriptor, address, count)
            #endif
        }
    }
}
