// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The current input, readable from a signal handler and a watching thread, so that it can be reported whatever it does
/// to the process.
package final class InputRecorder: @unchecked Sendable {
    /// No generator makes longer inputs; longer ones are truncated.
    private static let capacity = 4 << 20
    private static let shownBytes = 400

    private let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: capacity)
    /// `--seed S --target NAME --from `.
    private let origin = UnsafeMutablePointer<UInt8>.allocate(capacity: 256)
    private let path: UnsafeMutablePointer<CChar>
    private let count = Atomic<Int>(0)
    private let originCount = Atomic<Int>(0)
    private let number = Atomic<Int>(0)
    private let begun = Atomic<Int>(0)

    /// Number of started inputs.
    package var sequence: Int { begun.load(ordering: .relaxed) }

    /// - Parameter path: File that ``report(_:)`` writes.
    package init(path: String) {
        self.path = strdup(path)
    }

    deinit {
        bytes.deallocate()
        origin.deallocate()
        free(path)
    }

    package func begin(_ target: FuzzTarget, seed: UInt64) {
        let text = Array("--seed \(seed) --target \(target.rawValue) --from ".utf8.prefix(256))
        originCount.store(0, ordering: .relaxed)
        origin.update(from: text, count: text.count)
        originCount.store(text.count, ordering: .relaxed)
    }

    package func begin(_ number: Int) {
        count.store(0, ordering: .relaxed)
        self.number.store(number, ordering: .relaxed)
        begun.add(1, ordering: .relaxed)
    }

    func note(_ input: [UInt8]) {
        let length = min(input.count, Self.capacity)
        bytes.update(from: input, count: length)
        count.store(length, ordering: .relaxed)
    }

    /// Reports the input on standard error and writes it to the file. Allocates no memory and takes no lock.
    package func report(_ what: StaticString) {
        write(2, "fuzz: ")
        write(2, what)
        write(2, ": ")
        Self.write(2, origin, originCount.load(ordering: .relaxed))
        Self.write(2, decimal: number.load(ordering: .relaxed))
        write(2, "\nfuzz: again with: deploy/local/test --fuzz 1 ")
        Self.write(2, origin, originCount.load(ordering: .relaxed))
        Self.write(2, decimal: number.load(ordering: .relaxed))
        let length = count.load(ordering: .relaxed)
        write(2, "\nfuzz: the input, bytes: ")
        Self.write(2, decimal: length)
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
        if file >= 0 {
            Self.write(file, bytes, length)
            close(file)
            write(2, ", in ")
            path.withMemoryRebound(to: UInt8.self, capacity: strlen(path)) { Self.write(2, $0, strlen(path)) }
        }
        write(2, ": ")
        for index in 0..<min(length, Self.shownBytes) { Self.write(2, escaped: bytes[index]) }
        write(2, length > Self.shownBytes ? "...\n" : "\n")
    }

    private func write(_ descriptor: Int32, _ text: StaticString) {
        Self.write(descriptor, text.utf8Start, text.utf8CodeUnitCount)
    }

    private static func write(_ descriptor: Int32, _ start: UnsafePointer<UInt8>, _ count: Int) {
        var done = 0
        while done < count {
            #if canImport(Darwin)
            let written = Darwin.write(descriptor, start + done, count - done)
            #elseif canImport(Musl)
            let written = Musl.write(descriptor, start + done, count - done)
            #else
            let written = Glibc.write(descriptor, start + done, count - done)
            #endif
            guard written > 0 else { return }
            done += written
        }
    }

    private static func write(_ descriptor: Int32, decimal value: Int) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var rest = value
            var index = 20
            repeat {
                index -= 1
                digits[index] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            if let start = digits.baseAddress { write(descriptor, start + index, 20 - index) }
        }
    }

    private static func write(_ descriptor: Int32, escaped byte: UInt8) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 4) { out in
            guard let start = out.baseAddress else { return }
            if (0x20..<0x7F).contains(byte), byte != UInt8(ascii: "\\") {
                out[0] = byte
                write(descriptor, start, 1)
                return
            }
            (out[0], out[1]) = (UInt8(ascii: "\\"), UInt8(ascii: "x"))
            out[2] = digit(byte >> 4)
            out[3] = digit(byte & 15)
            write(descriptor, start, 4)
        }
    }

    private static func digit(_ nibble: UInt8) -> UInt8 {
        nibble < 10 ? UInt8(ascii: "0") + nibble : UInt8(ascii: "A") + nibble - 10
    }
}
