// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel

/// A parser of external input.
package enum FuzzTarget: String, CaseIterable, Sendable {
    case eventBinary
    case eventStructured
    /// Events that Freshet publishes, as decoded by consumers.
    case timelineUpdated
    case timelines
    case snapshots
    case placeholders
    /// A provider's options for a parameter.
    case options
    case configuration
    case json
    case timestamp
    case manifest
    /// Xcode's intent definitions with their strings.
    case intents
}

/// A violated property, other than a crash.
package struct FuzzFinding: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// Outcome of an input.
package struct FuzzOutcome: Sendable {
    package let isAccepted: Bool
    /// `accepted`, or the type of the error.
    package let verdict: String
    package let bytes: Int

    init(accepted bytes: Int, as verdict: String = "accepted") {
        isAccepted = true
        self.verdict = verdict
        self.bytes = bytes
    }

    init(refused bytes: Int, as verdict: String) {
        isAccepted = false
        self.verdict = verdict
        self.bytes = bytes
    }
}

/// Generates inputs and checks their outcomes. The seed, the target and a number identify an input.
package struct Fuzzer: Sendable {
    /// Maximum length of an error's text in bytes, which limits logs and dead letters.
    static let maximumMessageBytes = 1_024

    let corpus: Corpus
    let seed: UInt64
    let recorder: InputRecorder?

    /// - Parameter recorder: Stores the current input.
    package init(corpus: Corpus, seed: UInt64, recorder: InputRecorder? = nil) {
        self.corpus = corpus
        self.seed = seed
        self.recorder = recorder
    }

    /// - Throws: `FuzzFinding`.
    package func run(_ target: FuzzTarget, _ number: Int) throws(FuzzFinding) -> FuzzOutcome {
        recorder?.begin(number)
        var random = generator(target, number)
        switch target {
        case .eventBinary: return try binaryEvent(&random)
        case .eventStructured: return try structuredEvent(&random)
        case .timelineUpdated: return try timelineUpdated(&random)
        case .timelines: return try timelines(&random)
        case .snapshots: return try snapshots(&random)
        case .placeholders: return try placeholders(&random)
        case .options: return try options(&random)
        case .configuration: return try configuration(&random)
        case .json: return try json(&random)
        case .timestamp: return try timestamp(&random)
        case .manifest: return try manifest(&random)
        case .intents: return try intents(&random)
        }
    }

    private func generator(_ target: FuzzTarget, _ number: Int) -> InputGenerator {
        var word = seed
        for byte in target.rawValue.utf8 { word = (word ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        var mixer = InputGenerator(seed: word ^ (UInt64(number) &* 0xD6E8_FEB8_6659_FD93))
        return InputGenerator(seed: mixer.next())
    }

    // MARK: Properties of all errors

    static func expect(_ condition: Bool, _ finding: @autoclosure () -> String) throws(FuzzFinding) {
        guard condition else { throw FuzzFinding(finding()) }
    }

    /// Checks that a message is short and fit for a log.
    static func check(message: String, pointer: String?, of bytes: Int) throws(FuzzFinding) {
        try expect(message.utf8.count <= maximumMessageBytes, "a message of \(message.utf8.count) bytes")
        try expect(!message.isEmpty, "an empty message")
        try expect(!Text.containsControlCharacter(message), "a control character in \(message.debugDescription)")
        guard let pointer else { return }
        try expect(JSONPointer(pointer) != nil, "no pointer: \(pointer.debugDescription)")
        try expect(pointer.utf8.count <= 2 * bytes + 64, "a pointer of \(pointer.utf8.count) bytes into \(bytes)")
    }

    static func check(_ error: ModelError, of bytes: Int) throws(FuzzFinding) {
        try check(message: error.message, pointer: error.pointer, of: bytes)
    }

    static func check(_ error: JSONError, of bytes: Int) throws(FuzzFinding) {
        try check(message: error.message, pointer: error.pointer, of: bytes)
        try expect((0...bytes).contains(error.byteOffset), "byte \(error.byteOffset) of \(bytes)")
    }
}
