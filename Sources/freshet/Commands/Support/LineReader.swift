import Dispatch
import Foundation
import FreshetService

/// Error of a line that cannot be used.
struct LineRefused: Error, Hashable, Sendable {
    let message: String
}

/// The lines of a file or of standard input, read on demand on a thread of their own, since reading a pipe or terminal
/// blocks.
struct LineReader: AsyncSequence, Sendable {
    struct Line: Sendable, Equatable {
        /// Number, from 1.
        let number: Int
        /// Nil if the line is longer than allowed and was skipped.
        let bytes: [UInt8]?
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

    /// Decodes the lines that are not blank, and hands them on in chunks until `handle` returns false.
    ///
    /// - Parameter complain: called with a message for each refused line.
    /// - Returns: the number of refused lines.
    func chunks<Value>(
        of size: Int, decode: ([UInt8]) throws(LineRefused) -> Value, complain: (String) -> Void,
        handle: ([(line: Int, value: Value)]) async throws -> Bool
    ) async throws -> Int {
        var pending: [(line: Int, value: Value)] = []
        var refused = 0
        for try await line in self {
            do throws(LineRefused) {
                guard let bytes = line.bytes else { throw LineRefused(message: "longer than \(maximumBytes) bytes") }
                if bytes.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { continue }
                pending.append((line.number, try decode(bytes)))
            } catch {
                refused += 1
                complain("line \(line.number): \(error.message)")
            }
            guard pending.count >= size else { continue }
            guard try await handle(pending) else { return refused }
            pending.removeAll(keepingCapacity: true)
        }
        if !pending.isEmpty { _ = try await handle(pending) }
        return refused
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

        mutating func next() async throws(CommandFailure) -> Line? {
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
                let chunk = try await fetch()
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

        private func fetch() async throws(CommandFailure) -> [UInt8] {
            let outcome: Result<[UInt8], CommandFailure> = await withCheckedContinuation { continuation in
                queue.async { [descriptor = handle.fileDescriptor, name] in
                    continuation.resume(returning: Self.fetch(descriptor, name))
                }
            }
            return try outcome.get()
        }

        private static func fetch(_ descriptor: Int32, _ name: String) -> Result<[UInt8], CommandFailure> {
            while true {
                var failure: Int32 = 0
                let bytes = [UInt8](unsafeUninitializedCapacity: chunk) { buffer, count in
                    let result = read(descriptor, buffer.baseAddress, chunk)
                    if result < 0 { failure = errno }
                    count = result > 0 ? result : 0
                }
                if failure == 0 { return .success(bytes) }
                if failure != EINTR {
                    let reason = String(cString: strerror(failure))
                    return .failure(CommandFailure(.failure, "\(name) cannot be read: \(reason)"))
                }
            }
        }
    }
}
