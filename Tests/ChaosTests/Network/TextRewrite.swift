// SPDX-License-Identifier: Apache-2.0

/// A replacement in the text of statements on the wire. It keeps the length, so that the messages around it stay valid.
struct TextRewrite: Sendable {
    let pattern: [UInt8]
    let replacement: [UInt8]

    /// - Precondition: The replacement is no longer than the pattern; it is padded with spaces.
    init(_ pattern: String, _ replacement: String) {
        precondition(!pattern.isEmpty && replacement.utf8.count <= pattern.utf8.count, "\(replacement) is too long")
        self.pattern = Array(pattern.utf8)
        self.replacement =
            Array(replacement.utf8)
            + Array(repeating: UInt8(ascii: " "), count: pattern.utf8.count - replacement.utf8.count)
    }
}

/// Rewrites one direction of a connection. A chunk's end that may begin a pattern is held back until the next chunk.
struct RewrittenStream {
    private let rewrites: [TextRewrite]
    private var held: [UInt8] = []

    init(_ rewrites: [TextRewrite]) {
        self.rewrites = rewrites
    }

    mutating func pass(_ chunk: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard !rewrites.isEmpty else { return chunk }
        var bytes = held + chunk
        for rewrite in rewrites { Self.replace(rewrite, in: &bytes) }
        let keep = rewrites.map { Self.beginning(of: $0.pattern, atEndOf: bytes) }.max() ?? 0
        held = Array(bytes.suffix(keep))
        return bytes.dropLast(keep)
    }

    private static func replace(_ rewrite: TextRewrite, in bytes: inout [UInt8]) {
        let (pattern, count) = (rewrite.pattern, rewrite.pattern.count)
        guard bytes.count >= count else { return }
        var index = 0
        while index <= bytes.count - count {
            if bytes[index] == pattern[0], bytes[index..<(index + count)].elementsEqual(pattern) {
                bytes.replaceSubrange(index..<(index + count), with: rewrite.replacement)
                index += count
            } else {
                index += 1
            }
        }
    }

    /// Length of the longest proper prefix of the pattern with which the bytes end.
    private static func beginning(of pattern: [UInt8], atEndOf bytes: [UInt8]) -> Int {
        for length in stride(from: min(pattern.count - 1, bytes.count), to: 0, by: -1)
        where bytes.suffix(length).elementsEqual(pattern.prefix(length)) {
            return length
        }
        return 0
    }
}
