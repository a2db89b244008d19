/// Prediction of views of a widget, from a time until the time of the next prediction.
///
/// It is put into words only where it is the reason for a rotation or suggestion: few of a day's predictions are.
package struct WidgetPrediction: Hashable, Sendable {
    package let from: Timestamp
    package let habit: Habits.Prediction

    package var probability: Double { habit.probability }
    /// Reason in words.
    package var explanation: String { habit.explanation }
}
