// SPDX-License-Identifier: Apache-2.0

/// A past decision on a timeline.
package struct DecisionRecord: Hashable, Sendable {
    /// Most decisions that a timeline keeps.
    package static let kept = 50
    /// Size of a stored decision.
    package static let storedBytes = 8
    /// Stored time of a fetch that stands for none.
    private static let noFetch: UInt64 = 0xFFFF

    /// Time of the decision, in whole seconds.
    package let at: Timestamp
    package let decision: Decision
    package let rule: ReloadRule
    package let reason: ReloadReason?
    /// Duration of the fetch, up to 65 s; nil without one.
    package let fetchTime: Duration?

    package init(at: Timestamp, decision: Decision, rule: ReloadRule, reason: ReloadReason?, fetchTime: Duration?) {
        (self.at, self.decision, self.rule, self.reason, self.fetchTime) = (at, decision, rule, reason, fetchTime)
    }

    /// Reads decisions as the SQL function `decision_record` stores them, in the stored order. Those of a newer version
    /// that this one does not know are left out.
    package static func history(stored bytes: [UInt8]) -> [DecisionRecord] {
        stride(from: 0, through: bytes.count - storedBytes, by: storedBytes).compactMap { start in
            DecisionRecord(bytes[start..<start + storedBytes].reduce(0) { $0 << 8 | UInt64($1) })
        }
    }

    private init?(_ bits: UInt64) {
        func part(_ shift: Int, _ mask: UInt64) -> Int16 { Int16(truncatingIfNeeded: bits >> shift & mask) }
        guard let decision = Decision(rawValue: part(28, 0xF)), let rule = ReloadRule(rawValue: part(20, 0xFF)) else {
            return nil
        }
        let fetch = bits & Self.noFetch
        self.init(
            at: Timestamp(microseconds: Int64(bits >> 32) * 1_000_000), decision: decision, rule: rule,
            reason: ReloadReason(rawValue: part(16, 0xF)),
            fetchTime: fetch == Self.noFetch ? nil : .milliseconds(Int64(fetch)))
    }
}
