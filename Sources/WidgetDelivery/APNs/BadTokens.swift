import Synchronization

/// Compares the answers about unknown tokens with the accepted pushes of each topic.
///
/// If most answers say that a token is unknown, the topic or the environment is wrong rather than the tokens, and none of
/// them may be forgotten. Topics without such answers have no entry.
final class BadTokens: Sendable {
    private struct Answers {
        var accepted = 0
        var bad = 0
    }

    /// Number of answers from which on all earlier ones count half, so that the latest ones decide.
    private static let window = 128

    private let topics = Mutex<[String: Answers]>([:])

    func recordAccepted(_ topic: String) {
        topics.withLock { topics in
            guard var answers = topics[topic] else { return }
            answers.accepted += 1
            topics[topic] = Self.aged(answers)
        }
    }

    /// Returns whether most of the topic's latest answers, this one included, say that a token is unknown.
    func recordBad(_ topic: String) -> Bool {
        topics.withLock { topics in
            var answers = topics[topic] ?? Answers()
            answers.bad += 1
            topics[topic] = Self.aged(answers)
            return answers.bad > answers.accepted
        }
    }

    private static func aged(_ answers: Answers) -> Answers? {
        guard answers.accepted + answers.bad >= window else { return answers }
        let half = Answers(accepted: answers.accepted / 2, bad: answers.bad / 2)
        return half.bad > 0 ? half : nil
    }
}
