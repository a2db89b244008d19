/// Probability that the person looks at a widget, from a time until the time of the next prediction.
package struct WidgetPrediction: Hashable, Sendable {
    package var from: Timestamp
    package var probability: Double
    private let evidence: Evidence

    private enum Evidence: Hashable, Sendable {
        case words(String)
        case habit(Habits.Prediction)
    }

    package init(from: Timestamp, probability: Double, explanation: String = "") {
        self.from = from
        self.probability = probability
        evidence = .words(explanation)
    }

    /// - Parameter habit: put into words only where it is the reason for something, since few of a day's are.
    init(from: Timestamp, habit: Habits.Prediction) {
        self.from = from
        probability = habit.probability
        evidence = .habit(habit)
    }

    /// Reason in words.
    package var explanation: String {
        switch evidence {
        case .words(let words): words
        case .habit(let prediction): prediction.explanation
        }
    }
}
