import Synchronization

/// Compares the answers about unknown tokens with the accepted pushes of each topic.
///
/// If most answers say that a token is unknown, the topic or the environment is wrong rather than the tokens, and none of
/// them may be forgotten. A token counts once, however often it is tried again.
final class BadTokens: Sendable {
    private struct Answers {
        var accepted = 0
        var bad = 0
    }

    /// Number of answers from which on all earlier ones count half, so that the latest ones decide.
    private static let window = 128

    private let topics = Mutex<[String: Answers]>([:])

    func recordAccepted(_ topic: String) {
        topics.withLock { Self.record(\.accepted, in: &$0[topic, default: Answers()]) }
    }

    /// Records a token that is unknown for the first time.
    func recordBad(_ topic: String) {
        topics.withLock { Self.record(\.bad, in: &$0[topic, default: Answers()]) }
    }

    /// Returns whether at least half of the topic's latest pushes were accepted; false if none was.
    func areMostAccepted(_ topic: String) -> Bool {
        topics.withLock { topics in
            guard let answers = topics[topic], answers.accepted > 0 else { return false }
            return answers.accepted >= answers.bad
        }
    }

    private static func record(_ answer: WritableKeyPath<Answers, Int>, in answers: inout Answers) {
        answers[keyPath: answer] += 1
        guard answers.accepted + answers.bad >= window else { return }
        answers = Answers(accepted: answers.accepted / 2, bad: answers.bad / 2)
    }
}
