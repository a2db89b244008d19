import Dispatch
import Foundation
import FreshetService

/// Error of a line that cannot be used.
struct LineRefused: Error, Hashable, Sendable {
    let message: String
}

/// Reads the lines of a file or of standard input on a thread of its own, since a pipe or terminal blocks.
struct LineReader: Sendable {
    private static let queue = DispatchQueue(label: "freshet.lines")

    private let handle: FileHandle
    private let name: String
    private let maximumBytes: Int

    /// - Parameters:
    ///   - path: a file; `-` is standard input.
    ///   - maximumBytes: longest line; longer ones are refused.
    init(_ path: String, maximumBytes: Int) throws(CommandFailure) {
        name = path == "-" ? "standard input" : "the file \(path)"
        self.maximumBytes = maximumBytes
        guard let handle = path == "-" ? FileHandle.standardInput : FileHandle(forReadingAtPath: path) else {
            throw CommandFailure(.failure, "\(name) cannot be opened: \(String(cString: strerror(errno)))")
        }
        self.handle = handle
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
        var (number, refused) = (0, 0)
        // The rest of a line that is too long is not kept.
        var line: [UInt8] = []
        func append(_ bytes: ArraySlice<UInt8>) { line += bytes.prefix(maximumBytes + 2 - line.count) }
        func take() {
            number += 1
            defer { line.removeAll(keepingCapacity: true) }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            do throws(LineRefused) {
                guard line.count <= maximumBytes else {
                    throw LineRefused(message: "longer than \(maximumBytes) bytes")
                }
                if line.allSatisfy({ $0 == 0x20 || $0 == 0x09 }) { return }
                pending.append((number, try decode(line)))
            } catch {
                refused += 1
                complain("line \(number): \(error.message)")
            }
        }
        while true {
            var bytes = try await read()[...]
            if bytes.isEmpty { break }
            while let end = bytes.firstIndex(of: UInt8(ascii: "\n")) {
                append(bytes[..<end])
                bytes = bytes[(end + 1)...]
                take()
                guard pending.count >= size else { continue }
                guard try await handle(pending) else { return refused }
                pending.removeAll(keepingCapacity: true)
            }
            append(bytes)
        }
        if !line.isEmpty { take() }
        if !pending.isEmpty { _ = try await handle(pending) }
        return refused
    }

    /// The next bytes; empty at the end.
    private func read() async throws(CommandFailure) -> [UInt8] {
        let outcome = await withCheckedContinuation { continuation in
            Self.queue.async { [handle] in
                continuation.resume(returning: Result { Array(try handle.read(upToCount: 1 << 16) ?? Data()) })
            }
        }
        do {
            return try outcome.get()
        } catch {
            throw CommandFailure(.failure, "\(name) cannot be read: \(BoundedFile.reason(error))")
        }
    }
}
